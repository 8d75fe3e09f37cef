"""Owns a headless Chromium that looks at the playground. As a script, it makes the picture of the
docs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from live_server import small_server

PICTURE = Path(__file__).parents[2] / "docs" / "playground.png"


def why_no_browser() -> str | None:
    """Why there is no Chromium here; None if there is one."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "needs playwright: pip install 'specguide[browser]'"
    return (
        None
        if _chromium()
        else "needs Chromium: playwright install chromium, or the system's package"
    )


@contextmanager
def page(url: str, **options: Any) -> Iterator[Any]:
    """A page of headless Chromium; what it logs as an error, or loads from elsewhere, fails at the
    end."""
    from playwright.sync_api import sync_playwright

    chromium = _chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page(**options)
        faults: list[str] = []
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.on(
            "console",
            lambda message: faults.append(message.text) if message.type == "error" else None,
        )
        opened.on(
            "request",
            lambda one: None if one.url.startswith((url, "data:")) else faults.append(one.url),
        )
        opened.goto(url)
        yield opened
        browser.close()
    # A wrong key and a refused request are errors to the browser, and the page's own affair.
    faults = [fault for fault in faults if "the server responded with a status of 4" not in fault]
    assert not faults, faults


def run_example(opened: Any, name: str | None = None) -> None:
    """Run it, or what the form has, and wait for its end."""
    if name is not None:
        opened.select_option("#example", label=name)
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
    server = small_server(api_keys=())
    with page(server.url, viewport={"width": 1280, "height": 800}, **options) as opened:
        run_example(opened)
        run_example(opened)  # the first one loaded what it uses
        opened.locator("#stream .rejecting").nth(1).hover()
        opened.screenshot(path=path)
    server.stop()


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
