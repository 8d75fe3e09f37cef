"""Requests that come while others decode, so that chunks of their prompts are computed in the same
iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from requests_of_every_kind import PATIENT

from specguide import Guide, SamplingParams, SpecConfig
from specguide.batch import Batch
from specguide.config import CacheConfig, EngineConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.request import Request

_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
SPECS: dict[str, SpecConfig | None] = {
    "plain": None,
    "eagle3": SpecConfig(),
    "tree": SpecConfig(tree=DynamicTree(3, 2, 8)),
    "forced": SpecConfig(num_forced_tokens=4),
    "mtp": SpecConfig("mtp"),
    "ngram": SpecConfig("ngram"),
    "adaptive": SpecConfig(adaptive=True),
    "adaptive tree": SpecConfig(tree=DynamicTree(3, 2, 8), adaptive=True),
}
"""The modes that are compared; "mtp" with the shipped module."""


def asked(num: int) -> list[tuple[str, SamplingParams]]:
    """Prompts of different lengths, among them a short one, with their parameters."""
    guides = [
        None,
        Guide(json_schema=_SCHEMA),
        Guide(json_schema=_SCHEMA, backend="xgrammar"),
        Guide(regex="[a-z]{3,9}( [0-9]+)?"),
    ]
    params: list[dict[str, Any]] = [
        {},
        {"temperature": 0.9},
        {"logprobs": 2},
        {"top_p": 0.9, "temperature": 1.0},
        {"temperature": 0.7, "top_k": 20},
    ]
    texts = ["Maria is 34 and lives in Lyon. ", "1 2 3 4 5 6 ", "The cat and the dog and ", "x"]
    return [
        (
            texts[at % 4] * (at % 3 * 4 + 1) + str(at),
            SamplingParams(max_tokens=14, seed=at, guide=guides[at % 4], **params[at % 5]),
        )
        for at in range(num)
    ]


@dataclass
class Watch:
    """Counts over the batches of an engine. chunks: prompt tokens of each mixed batch; num_starts:
    requests that began to decode"""

    chunks: list[int] = field(default_factory=list)
    num_starts: int = 0

    def note(self, batch: Batch) -> None:
        """Take one more batch."""
        self.num_starts += len(batch.starts)
        if batch.piggyback.chunks:
            self.chunks.append(batch.piggyback.num_tokens)


def engine_of(spec: SpecConfig | None, **options: Any) -> tuple[Engine, Watch]:
    """An engine of the shipped model, and counts over its batches."""
    options = {"max_batch_size": 4, "max_model_len": 256, "guide": PATIENT} | options
    options = {"cache": CacheConfig(page_size=4, num_pages=300)} | options
    engine, watch = Engine(EngineConfig(spec=spec, **options)), Watch()
    schedule = engine._scheduler.schedule

    def noted(**options: Any) -> Any:
        answer = schedule(**options)
        if answer.batch is not None:
            watch.note(answer.batch)
        return answer

    engine._scheduler.schedule = noted  # type: ignore[method-assign]
    return engine, watch


def run(
    engine: Engine, requests: Sequence[tuple[str, SamplingParams]], steps_between: int = 2
) -> list[Request]:
    """Run all requests to their end, each added some iterations after the one before."""
    added = []
    for text, params in requests:
        added.append(engine.add(engine.prompt_ids(text), params))
        for _ in range(steps_between):
            engine.step()
    while engine.num_unfinished:
        engine.step()
    engine.check_integrity()
    return added


def told(request: Request) -> tuple[Any, ...]:
    """Everything that a caller reads of a request, except times."""
    logprobs = [{token: one.rank for token, one in entry.items()} for entry in request.logprobs]
    return (
        request.output_ids,
        request.text.text,
        request.finish_reason,
        str(request.error),
        logprobs,
    )
