"""Owns a live playground and a headless Chromium to look at it. As a script, it makes the picture of the docs."""

from __future__ import annotations

import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from specguide.config import EngineConfig, SpecConfig
from specguide.engine import AsyncEngine, Engine
from specguide.server.app import create_app
from specguide.server.config import ServerConfig

KEY = "a secret"
PICTURE = Path(__file__).parent.parent / "docs" / "playground.png"


@contextmanager
def serving(*api_keys: str, trace: bool = False) -> Iterator[tuple[str, AsyncEngine]]:
    """Address and engine of an API server on the shipped model."""
    engine = AsyncEngine(Engine(EngineConfig(spec=SpecConfig(), max_batch_size=4, trace=trace)))
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    app = create_app(engine, ServerConfig("small", api_keys=api_keys))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}", engine
    server.should_exit = True
    thread.join(30)


def why_no_browser() -> str | None:
    """None where there is one."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "needs playwright: pip install 'specguide[browser]'"
    return None if _chromium() else "needs Chromium: playwright install chromium, or the system's package"


@contextmanager
def page(url: str, **options: Any) -> Iterator[Any]:
    """A page of headless Chromium; what it logs as an error, or loads from elsewhere, fails at the end."""
    from playwright.sync_api import sync_playwright

    chromium = _chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page(**options)
        faults: list[str] = []
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        opened.on("request", lambda one: None if one.url.startswith((url, "data:")) else faults.append(one.url))
        opened.goto(url)
        yield opened
        browser.close()
    # A wrong key and a refused request are errors to the browser, and the page's own affair.
    faults = [fault for fault in faults if "the server responded with a status of 4" not in fault]
    assert not faults, faults


def run_example(opened: Any, name: str | None = None, message: str | None = None) -> None:
    """Run it, as it is or with another message, and wait for its end."""
    if name is not None:
        opened.select_option("#example", label=name)
    if message is not None:
        opened.fill("#message", message)
    opened.click("#run")
    opened.locator("#ending", has_text="ended by").wait_for(timeout=60_000)


def _chromium() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return own if Path(own).exists() else next(filter(None, map(shutil.which, names)), None)


def take_picture(path: Path, **options: Any) -> None:
    """The page after an answer, with the card of a token in whose place drafts were rejected."""
    with serving() as (url, _), page(url, viewport={"width": 1280, "height": 800}, **options) as opened:
        run_example(opened)
        run_example(opened)  # the first one loaded what it uses
        opened.locator("#stream .rejecting").nth(1).hover()
        opened.screenshot(path=path)


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
