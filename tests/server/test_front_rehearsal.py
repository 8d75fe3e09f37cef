"""What a front does before it says that it is ready, so that no client waits for it."""

import asyncio
import subprocess
import sys

from fastapi import APIRouter, FastAPI

from specguide.server.processes.front import rehearse


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
    asyncio.run(asyncio.wait_for(rehearse(app), 10))
    assert seen == []


def test_a_rehearsal_loads_what_streams_an_answer() -> None:
    code = """
import asyncio, sys
from fastapi import FastAPI
from specguide.server.processes.front import rehearse
assert "anyio._backends._asyncio" not in sys.modules
asyncio.run(rehearse(FastAPI()))
assert "anyio._backends._asyncio" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
