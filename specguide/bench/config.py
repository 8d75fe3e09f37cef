"""Owns the options of the benchmarks: frozen dataclasses, which need no library of the extra
[bench]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from specguide.errors import InvalidParams


@dataclass(frozen=True)
class ServerAddress:
    """Where a server of the OpenAI API is.

    url:     the server, up to and with /v1
    model:   what the server calls the model; its first one when left out
    api_key: sent as Authorization: Bearer …
    """

    url: str = "http://127.0.0.1:8000/v1"
    model: str | None = None
    api_key: str = "none"


@dataclass(frozen=True)
class Load:
    """How requests come. Raises InvalidParams.

    concurrency: most requests at once
    seconds:     how long requests are sent; those under way are waited for
    requests:    send so many instead, however long it takes
    rounds:      or so many for each client
    rate:        arrivals a second, at random (Poisson); else the next request follows when one has
                 ended
    processes:   processes that share the clients; one reads some thousand tokens a second
    timeout_s:   seconds after which an answer counts as lost
    seed:        the same seed sends the same requests
    """

    concurrency: int = 64
    seconds: float = 120.0
    requests: int | None = None
    rounds: int | None = None
    rate: float | None = None
    processes: int = 1
    timeout_s: float = 120.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (
            "concurrency",
            "seconds",
            "requests",
            "rounds",
            "rate",
            "processes",
            "timeout_s",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidParams(f"{name} must be above 0, found {value}", param=name)
        if self.requests is not None and self.rounds is not None:
            raise InvalidParams(
                "requests and rounds exclude each other: give only one of them", param="rounds"
            )

    @property
    def num_requests(self) -> int | None:
        """Requests that are sent; None: as many as there is time for."""
        return self.requests if self.rounds is None else self.rounds * self.concurrency

    def parts(self) -> list[Load]:
        """The part of the load for each process; no part is without clients or requests."""
        num = min(self.processes, self.concurrency, self.num_requests or self.concurrency)
        return [
            replace(
                self,
                concurrency=_part(self.concurrency, num, index),
                requests=self.num_requests and _part(self.num_requests, num, index),
                rounds=None,
                rate=self.rate and self.rate / num,
                processes=1,
                seed=self.seed + index,
            )
            for index in range(num)
        ]


def _part(number: int, num_parts: int, index: int) -> int:
    return number // num_parts + (index < number % num_parts)


@dataclass(frozen=True)
class RequestMix:
    """What a server under load is asked for; shares may be in any unit.

    free:        share of free text
    json:        share of answers that must match a JSON schema
    tools:       share of tool calls
    schemas:     JSON Lines file of {"schema": …}, as JSONSchemaBench; a built-in few when left out
    tool_tasks:  JSON Lines file of {"question": messages, "tools": […]}, as BFCL; a built-in few
                 when left out
    max_tokens:  most tokens of an answer
    temperature: 0 is greedy; otherwise logits are divided by it, > 0
    """

    free: float = 1.0
    json: float = 1.0
    tools: float = 1.0
    schemas: Path | None = None
    tool_tasks: Path | None = None
    max_tokens: int = 128
    temperature: float = 0.0

    @property
    def shares(self) -> dict[str, float]:
        """The share of each kind of request."""
        return {"free": self.free, "json": self.json, "tools": self.tools}


@dataclass(frozen=True)
class RequestSizes:
    """Requests that all have one size, by which servers are compared. Raises InvalidParams.

    prompt_len:   tokens of each prompt, chat template included; no two prompts are alike; left out:
                  the mix above
    output_len:   tokens of each answer
    api:          chat or completions
    guided_share: share of answers that must match a JSON schema, which is too long for any of them
                  to complete; 0 to 1
    prompt_ids:   LO:HI, range of token ids for prompts of completions; left out: prompts of words
                  with about as many tokens
    """

    prompt_len: int | None = None
    output_len: int = 128
    api: str = "chat"
    guided_share: float = 0.0
    prompt_ids: str | None = None

    def __post_init__(self) -> None:
        if self.api not in ("chat", "completions"):
            raise InvalidParams(f"api must be chat or completions, found {self.api!r}", param="api")
        if not 0 <= self.guided_share <= 1:
            raise InvalidParams(
                f"guided_share must be 0 to 1, found {self.guided_share}", param="guided_share"
            )
        for name in ("prompt_len", "output_len"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InvalidParams(f"{name} must be ≥ 1, found {value}", param=name)
        if self.id_range is not None and not 0 <= self.id_range.start < self.id_range.stop:
            raise InvalidParams(
                f"prompt_ids must be LO:HI with 0 ≤ LO < HI, found {self.prompt_ids!r}",
                param="prompt_ids",
            )

    @cached_property
    def id_range(self) -> range | None:
        """The range that prompt_ids says; None where they are left out. Raises InvalidParams where
        it is no range."""
        if self.prompt_ids is None:
            return None
        try:
            low, high = map(int, self.prompt_ids.split(":"))
        except ValueError:
            raise InvalidParams(
                f"prompt_ids must be two numbers, LO:HI, found {self.prompt_ids!r}",
                param="prompt_ids",
            ) from None
        return range(low, high)


@dataclass(frozen=True)
class TaskChoice:
    """What the acceptance benchmark decodes.

    data:           folder with NAME.jsonl for each set; $SPECGUIDE_DATA when left out
    sets:           comma-separated; chat, extraction, free_text and tools are built in; NAME.jsonl
                    of --data, with messages and schema, or in the form of BFCL or JSONSchemaBench;
                    hub:REPOSITORY[:SPLIT[:CONFIG]] of the Hugging Face hub, json_mode_eval and
                    jsonschemabench for short
    samples:        most tasks of a set
    max_chars:      tasks whose messages, schema and tools have more characters are left out
    max_tokens:     most tokens to generate, ≥ 1
    max_whitespace: most whitespace between two JSON tokens; 0 is compact, where the grammar forces
                    most
    closed_objects: guides let objects have only the properties that their schema names
    """

    data: Path | None = None
    sets: str = "extraction,tools"
    samples: int = 32
    max_chars: int | None = None
    max_tokens: int = 256
    max_whitespace: int = 0
    closed_objects: bool = False


@dataclass(frozen=True)
class BenchEngine:
    """What the acceptance benchmark's engines run with.

    dtype:                  float32, bfloat16 or float16; left out: as the engine chooses. In
                            float32 outputs with and without drafts are the same
    gpu_memory_utilization: share of a GPU's memory that they may take, less where several
                            benchmarks share it
    """

    dtype: str | None = None
    gpu_memory_utilization: float = 0.9


@dataclass(frozen=True)
class AxisLists:
    """What the acceptance benchmark compares; each field is a comma-separated list.

    drafters:         of {drafters}; plain decoding is always measured too. Left out: eagle3, mtp,
                      ngram, suffix and grammar, without those whose head is not there
    num_draft_tokens: K, draft tokens per iteration
    forced:           F, drafts beside the drafter's where the grammar forces text
    drafts:           of guided, unguided
    backends:         of {backends}; what one refuses is counted
    concurrency:      requests at once; several draw a Pareto plot
    """

    drafters: str | None = None
    num_draft_tokens: str = "3"
    forced: str = "0,8"
    drafts: str = "guided,unguided"
    backends: str = "auto"
    concurrency: str = "8"


@dataclass(frozen=True)
class ConformanceConfig:
    """How schemas are tried. Raises InvalidParams.

    backends: of {backends}, comma-separated
    draws:    random texts that are drawn from each grammar and validated
    output:   folder for records, JSON and report
    """

    backends: str = "auto"
    draws: int = 4
    output: Path = Path("conformance")

    def __post_init__(self) -> None:
        if self.draws < 0:
            raise InvalidParams(f"--draws must be ≥ 0, found {self.draws}", param="draws")


@dataclass(frozen=True)
class CertifyConfig:
    """How much of a grammar is checked. Raises InvalidParams.

    backend: the one that must enforce the schema, of {backends}
    walks:   known instances that are walked along, and random texts that are drawn, at most each
    masks:   most masks that are checked
    bits:    bits of each mask that the validator checks, half of them 1 and half 0; all bits are
             checked against JSON itself
    changes: random changes of instances that are tried
    seconds: most time of the processor for one schema, without the compile
    seed:    of all that is random
    """

    backend: str = "auto"
    walks: int = 5
    masks: int = 400
    bits: int = 4
    changes: int = 100
    seconds: float = 60.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("walks", "masks", "bits", "changes", "seconds"):
            value = getattr(self, name)
            if not 0 <= value <= 10**9:
                raise InvalidParams(f"--{name} must be 0 to 10^9, found {value}", param=name)
