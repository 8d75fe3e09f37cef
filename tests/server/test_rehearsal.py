"""What an app does before it is ready, so that no client waits for it."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fastapi import APIRouter, FastAPI
from vision_folders import save_vision

from specguide.config import EngineConfig
from specguide.engine.setup.facts import resolved
from specguide.engine.setup.target_folder import load_tokenizer
from specguide.server.config import ServerConfig
from specguide.server.rehearsal import rehearse_conversation, rehearse_routes
from specguide.server.tasks.backend import Backend
from specguide.tokenizer.chat_template import ChatTemplate


def test_a_rehearsal_is_nobodys_request() -> None:
    app, router, seen = FastAPI(), APIRouter(), []

    @router.get("/page")
    async def page() -> str:
        seen.append("page")
        return "text"

    @app.middleware("http")
    async def note(request, go_on):  # type: ignore[no-untyped-def]
        seen.append(request.url.path)
        return await go_on(request)

    app.include_router(router)
    asyncio.run(asyncio.wait_for(rehearse_routes(app), 10))
    assert seen == []


def test_a_rehearsal_loads_what_streams_an_answer() -> None:
    code = """
import asyncio, sys
from fastapi import FastAPI
from specguide.server.rehearsal import rehearse_routes
assert "anyio._backends._asyncio" not in sys.modules
asyncio.run(rehearse_routes(FastAPI()))
assert "anyio._backends._asyncio" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("has_template", [True, False])
def test_a_rehearsed_conversation_needs_no_engine(
    has_template: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolved(EngineConfig())
    tokenizer = load_tokenizer(config)
    if not has_template:
        monkeypatch.setattr(tokenizer, "_template", ChatTemplate(None))
    engine = SimpleNamespace(
        config=config,
        tokenizer=tokenizer,
        vocab_size=len(tokenizer),
        max_model_len=100,
        max_unfinished=1,
    )
    backend = Backend(engine, ServerConfig("small"))  # type: ignore[arg-type]
    rehearse_conversation(backend)
    assert "max_prompt_chars" in vars(backend)


def test_a_rehearsal_reads_an_image_where_the_model_does(tmp_path, monkeypatch) -> None:
    save_vision("Llava", tmp_path)
    config = resolved(EngineConfig(model=tmp_path))
    tokenizer = load_tokenizer(config)
    prepared: list[object] = []
    assert tokenizer.images is not None
    prepare = tokenizer.images.prepare
    monkeypatch.setattr(
        tokenizer.images, "prepare", lambda *args: prepared.append(args) or prepare(*args)
    )
    facts = {
        "config": config,
        "tokenizer": tokenizer,
        "vocab_size": 300,
        "max_model_len": 400,
        "max_unfinished": 9,
    }
    rehearse_conversation(Backend(SimpleNamespace(**facts), ServerConfig("small")))
    assert len(prepared) == 1
