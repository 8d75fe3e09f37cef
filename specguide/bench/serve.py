"""Owns a measurement of one server from end to end: reach it, drive it, check what it answered."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

import httpx
from tqdm import tqdm

from specguide.bench.checks import Fault, faults_of
from specguide.bench.config import Load, ServerAddress
from specguide.bench.drive import drive
from specguide.bench.figures import summary
from specguide.bench.provenance import provenance
from specguide.bench.workload import Workload
from specguide.errors import InvalidParams


@dataclass(frozen=True)
class Target:
    """A server that answers. model: what it calls the model"""

    address: ServerAddress
    model: str

    @classmethod
    def reach(cls, address: ServerAddress) -> Target:
        """With the first model that it names, where none is given. Raises InvalidParams where it is
        no such server."""
        url, model = address.url, address.model
        try:
            answer = httpx.get(f"{url.rstrip('/')}/models", headers=_headers(address), timeout=10)
            answer.raise_for_status()
            found = [str(one["id"]) for one in answer.json()["data"]]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise InvalidParams(
                f"no server of the OpenAI API answers at {url}: {error}; is it running, and does "
                "the "
                "URL end in /v1?",
                param="url",
            ) from error
        if not found or model not in (None, *found):
            raise InvalidParams(
                f"the server at {url} has no model {model!r}; it has {', '.join(found) or 'none'}",
                param="model",
            )
        return cls(address, model or found[0])


def measure(target: Target, workload: Workload, load: Load) -> tuple[dict[str, Any], list[Fault]]:
    """The record of a run, for JSON, and every fault."""

    async def run() -> tuple[dict[str, Any], list[Fault]]:
        limits = httpx.Limits(
            max_connections=load.concurrency, max_keepalive_connections=load.concurrency
        )
        with tqdm(total=load.requests, unit=" answers", disable=None) as progress:
            async with httpx.AsyncClient(
                base_url=target.address.url.rstrip("/") + "/",
                headers=_headers(target.address),
                timeout=None,
                limits=limits,
            ) as client:
                answers = await drive(client, workload, load, lambda _: progress.update())
        faults = faults_of(answers)
        num_clients = load.concurrency if load.rate is None else None
        return summary(answers, faults, num_clients), [fault for found in faults for fault in found]

    result, faults = asyncio.run(run())
    config = {
        **asdict(load),
        "shares": dict(workload.shares),
        "max_tokens": workload.max_tokens,
        "temperature": workload.temperature,
        "model": target.model,
    }
    return {
        "benchmark": "serve",
        "client": provenance(target.address.api_key),
        "config": config,
        "result": result,
    }, faults


def _headers(address: ServerAddress) -> dict[str, str]:
    return {"Authorization": f"Bearer {address.api_key}"}
