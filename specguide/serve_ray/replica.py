"""Owns a replica: an engine's process, and the HTTP application in front of it, in a Ray actor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from prometheus_client import generate_latest
from ray import serve

from specguide.engine.serving.remote_engine import RemoteEngine
from specguide.engine.setup.target_folder import load_tokenizer
from specguide.errors import EngineError
from specguide.host.processes import settle
from specguide.serve_ray.exchange import AnswerPiece, ForwardedRequest, NotTaken, answer
from specguide.server.app import create_app
from specguide.server.http.request_log import write_refusals
from specguide.server.processes.core_process import CoreProcess
from specguide.server.processes.plans import ServicePlan
from specguide.server.rehearsal import rehearse

_TELL_S = 0.5
"""Time in seconds for requests to get the error that their engine is gone."""


class EngineReplica:
    """Answers requests that an ingress forwards, as `specguide serve` would. When its engine's
    process ends it ends too, and Ray starts a new one."""

    async def __init__(self, plan: ServicePlan) -> None:  # type: ignore[misc]  # Ray awaits it
        self._drain_s = plan.server.drain_s
        self._core = CoreProcess(plan)
        facts = await self._core.ready(self._lose)
        self._engine = RemoteEngine(facts, load_tokenizer(facts.config), "replica")
        self._app = create_app(self._engine, plan.server)
        await rehearse(self._app)
        self._engine.connect(self._core.address)
        if plan.server.log_requests:
            write_refusals()
        settle()

    async def answer(self, request: ForwardedRequest) -> AsyncIterator[AnswerPiece]:
        """The answer's head, then its body piece by piece. Ray cancels the call when the client
        leaves."""
        if self._core.end is not None:
            yield NotTaken()
            return
        async for piece in answer(self._app, request):
            yield piece

    async def metrics(self) -> tuple[str, str]:
        """This replica's name, and its page for Prometheus."""
        await self._engine.refresh_stats()
        page = generate_latest(self._app.state.registry).decode()
        return serve.get_replica_context().replica_id.unique_id, page

    async def check_health(self) -> None:
        """Raise EngineError where the engine is gone: Ray replaces a replica that raises here."""
        if self._core.end is not None:
            raise EngineError(self._core.end)

    async def __del__(self) -> None:
        """Stop the engine when Ray stops the replica. Requests under way have had their time."""
        if hasattr(self, "_engine"):
            await self._engine.close(0.0)
        if hasattr(self, "_core"):
            await self._core.stop()

    def _lose(self, end: str) -> None:
        """End all requests with the engine's last error, and end the actor: Ray's routers notice at
        once when an actor is gone, but an unhealthy one only after three checks."""
        self._engine.disconnect(end)
        asyncio.get_running_loop().call_later(_TELL_S, os._exit, 1)
