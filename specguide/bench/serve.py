"""Owns one whole measurement of a server: reach it, drive it from one or more processes, and check
its answers."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

import httpx
from tqdm import tqdm

from specguide.bench.answer import Answer
from specguide.bench.busy import busy_window, common
from specguide.bench.checks import Fault, faults_of
from specguide.bench.config import Load, RequestSizes, ServerAddress
from specguide.bench.drive import Requests, drive
from specguide.bench.figures import summary
from specguide.bench.provenance import provenance
from specguide.bench.sized import SizedWorkload, WordTokens
from specguide.errors import InvalidParams

_TRIAL_WORDS = 16, 128
_TRIAL_SEED = -1
"""Seed of prompts that occur in no load."""


@dataclass(frozen=True)
class Target:
    """A server that answers. model: the model's name on the server"""

    address: ServerAddress
    model: str

    @classmethod
    def reach(cls, address: ServerAddress) -> Target:
        """The server at an address; its model is the first one that it lists if none is given.
        Raises InvalidParams if no server of the OpenAI API answers."""
        url, model = address.url, address.model
        try:
            answer = httpx.get(f"{url.rstrip('/')}/models", headers=_headers(address), timeout=10)
            if answer.status_code == 401:
                raise InvalidParams(f"the server at {url} wants another --api-key: {answer.text}")
            answer.raise_for_status()
            found = [str(one["id"]) for one in answer.json()["data"]]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise InvalidParams(
                f"no server of the OpenAI API answers at {url}: {error}; check that it is running "
                "and that the URL ends in /v1",
                param="url",
            ) from error
        if not found or model not in (None, *found):
            raise InvalidParams(
                f"the server at {url} has no model {model!r}; it has {', '.join(found) or 'none'}",
                param="model",
            )
        return cls(address, model or found[0])


def fitted(target: Target, sizes: RequestSizes, seed: int) -> SizedWorkload:
    """Requests of these sizes. A few short requests measure how many tokens the server makes of
    words; if it does not report them, a guess is used. Raises InvalidParams if its chat template
    leaves no room for words."""
    workload = SizedWorkload(sizes, target.model, seed)
    if workload.is_of_ids:
        return workload
    few, many = _TRIAL_WORDS
    each = (_num_tokens(target, sizes, many) - _num_tokens(target, sizes, few)) / (many - few)
    shares = {False: 1 - sizes.guided_share, True: sizes.guided_share}
    for is_guided in [kind for kind, share in shares.items() if share and each > 0]:
        num_tokens = _num_tokens(target, sizes, few, is_guided=is_guided)
        workload.words[is_guided] = WordTokens(each, max(0.0, num_tokens - each * few))
        workload.num_words(is_guided)
    return workload


def _num_tokens(
    target: Target, sizes: RequestSizes, num_words: int, *, is_guided: bool = False
) -> int:
    """Tokens of a prompt with this many words, as the server counts them; 0 if it does not report
    them."""
    prompt_len = round(num_words * WordTokens().each)
    trial = replace(sizes, prompt_len=prompt_len, output_len=1, guided_share=float(is_guided))
    requests = SizedWorkload(trial, target.model, _TRIAL_SEED)
    (answer,) = _drive_part(target, requests, Load(concurrency=1, requests=1), 1, 1)
    return int((answer.usage or {}).get("prompt_tokens") or 0)


@dataclass(frozen=True)
class Measured:
    """The results of one load. figures: for JSON"""

    load: Load
    figures: dict[str, Any]
    faults: list[Fault]


def measure(target: Target, requests: Requests, load: Load) -> Measured:
    """Put a server under one load, from as many processes as it says, and check every answer."""
    parts = load.parts()
    if len(parts) == 1:
        found = [_drive_part(target, requests, load, 0, 1)]
    else:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(len(parts), mp_context=spawn) as pool:
            jobs = [
                pool.submit(_drive_part, target, requests, part, index, len(parts))
                for index, part in enumerate(parts)
            ]
            found = [job.result() for job in jobs]
    answers = sorted((one for some in found for one in some), key=lambda one: one.request.number)
    window = None
    if load.rate is None:
        pairs = zip(found, parts, strict=True)
        window = common([busy_window(some, part.concurrency) for some, part in pairs])
    faults = faults_of(answers)
    figures = summary(answers, faults, window)
    return Measured(load, figures, [fault for some in faults for fault in some])


def _drive_part(
    target: Target, requests: Requests, load: Load, first: int, step: int
) -> list[Answer]:
    """Run the clients of one process, which send every `step`-th request. Returns all answers."""

    async def run() -> list[Answer]:
        limits = httpx.Limits(
            max_connections=load.concurrency, max_keepalive_connections=load.concurrency
        )
        is_hidden = True if first else None  # None: hidden if standard error is no terminal
        with tqdm(total=load.num_requests, unit=" answers", disable=is_hidden) as progress:
            async with httpx.AsyncClient(
                base_url=target.address.url.rstrip("/") + "/",
                headers=_headers(target.address),
                timeout=None,
                limits=limits,
            ) as client:
                numbers = count(first, step)
                return await drive(client, requests, load, numbers, lambda _: progress.update())

    return asyncio.run(run())


def record_of(
    target: Target, asked: dict[str, Any], measured: Sequence[Measured]
) -> dict[str, Any]:
    """The record of a run, for JSON.

    asked: what requests were made from
    """
    return {
        "benchmark": "serve",
        "client": provenance(),
        "config": {**asked, "model": target.model},
        "result": [{**asdict(one.load), **one.figures} for one in measured],
    }


def _headers(address: ServerAddress) -> dict[str, str]:
    return {"Authorization": f"Bearer {address.api_key}"}
