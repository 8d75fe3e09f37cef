"""Owns Workload, the mix of requests under load: kind, body and marker of a request follow from a
seed and its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from specguide.bench.config import RequestMix
from specguide.bench.samples import (
    KINDS,
    Sample,
    built_in,
    marked,
    read_schemas,
    read_tool_tasks,
)
from specguide.errors import InvalidParams

_SCORED_EVERY = 8
"""One in this many free requests asks for log-probabilities, which tell the number of tokens in
each chunk."""


@dataclass(frozen=True)
class LoadRequest:
    """One request, and what its answer is checked against.

    kind:       one of KINDS
    path:       where its body is posted, behind /v1
    marker:     occurs in no other request; a guided answer and every call must contain it, and no
                answer may contain another request's
    body:       JSON
    schema:     the schema of an answer of kind "json"
    parameters: schema of each tool's arguments, by the tool's name
    """

    number: int
    kind: str
    marker: str
    body: dict[str, Any]
    schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    path: str = "chat/completions"

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of its answer."""
        return int(self.body["max_tokens"])


@dataclass(frozen=True)
class Workload:
    """A mix of requests. Raises InvalidParams.

    samples:     of each kind
    shares:      share of each kind, in any unit
    model:       the model's name on the server
    max_tokens:  of guided answers and calls; free answers have between half of it and all
    """

    samples: Mapping[str, Sequence[Sample]]
    shares: Mapping[str, float]
    model: str
    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.shares.values()) < 0 or not sum(self.shares.values()) > 0:
            raise InvalidParams(
                f"the shares of {', '.join(KINDS)} must be ≥ 0, and one of them > 0; found "
                f"{', '.join(f'{share:g}' for share in self.shares.values())}"
            )
        if self.max_tokens < 2:
            raise InvalidParams(
                f"max_tokens must be ≥ 2, found {self.max_tokens}", param="max_tokens"
            )

    @classmethod
    def of(cls, mix: RequestMix, model: str, seed: int) -> Workload:
        """The workload with the samples that `mix` names. Raises InvalidParams for files without
        samples."""
        samples = built_in()
        if mix.schemas is not None:
            samples["json"] = read_schemas(mix.schemas)
        if mix.tool_tasks is not None:
            samples["tools"] = read_tool_tasks(mix.tool_tasks)
        return cls(samples, mix.shares, model, mix.max_tokens, mix.temperature, seed)

    def request(self, number: int) -> LoadRequest:
        """The request with this number; it is the same for the same number and seed."""
        rng = Random(f"{self.seed}:{number}")
        (kind,) = rng.choices(KINDS, [self.shares[kind] for kind in KINDS])
        sample = rng.choice(self.samples[kind])
        marker = f"req-{number}-{rng.getrandbits(16):04x}"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(sample.messages),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": rng.getrandbits(31),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if kind == "json" and sample.schema is not None:
            schema = marked(sample.schema, marker)
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema},
            }
            return LoadRequest(number, kind, marker, body, schema=schema)
        if kind == "tools":
            functions = [tool["function"] for tool in sample.tools]
            parameters = {one["name"]: marked(one["parameters"], marker) for one in functions}
            body["tools"] = [
                {"type": "function", "function": {**one, "parameters": parameters[one["name"]]}}
                for one in functions
            ]
            body["tool_choice"] = "required"
            return LoadRequest(number, kind, marker, body, parameters=parameters)
        *before, last = sample.messages
        body["messages"] = [*before, {**last, "content": f"{last['content']} ({marker})"}]
        body["max_tokens"] = rng.randint(self.max_tokens // 2, self.max_tokens)
        if rng.randrange(_SCORED_EVERY) == 0:
            body["logprobs"] = True
        return LoadRequest(number, kind, marker, body)
