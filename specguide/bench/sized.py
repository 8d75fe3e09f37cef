"""Owns requests of one size, by which servers are compared: prompts that no prefix cache knows, and
answers that do not end before they are as long as was asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import Any

from specguide.bench.config import RequestSizes
from specguide.bench.workload import Task

_TOKENS_A_WORD = 2
_NUM_FIELDS = 128
_SCHEMA = {
    "type": "object",
    "properties": {f"f{number:03d}": {"type": "string"} for number in range(_NUM_FIELDS)},
    "required": [f"f{number:03d}" for number in range(_NUM_FIELDS)],
    "additionalProperties": False,
}
"""Of answers that have more tokens than anybody waits for."""


@dataclass(frozen=True)
class SizedWorkload:
    """Requests of `sizes`, all greedy. model: what the server calls it; seed: others have other
    prompts"""

    sizes: RequestSizes
    model: str
    seed: int = 0

    def task(self, number: int) -> Task:
        """The same for the same number and seed."""
        sizes, rng = self.sizes, Random(f"{self.seed}:{number}")
        is_guided = _is_share(number, sizes.guided_share)
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": sizes.output_len,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if is_guided:
            schema = {"name": "answer", "schema": _SCHEMA}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            body["ignore_eos"] = True
        if sizes.api == "chat":
            body["messages"] = [{"role": "user", "content": self._words(rng)}]
        else:
            body["prompt"] = self._ids(rng) or self._words(rng)
        path = "chat/completions" if sizes.api == "chat" else "completions"
        kind, checked = ("json", _SCHEMA) if is_guided else ("free", None)
        return Task(number, kind, f"#{self.seed}:{number}", body, checked, path=path)

    def _words(self, rng: Random) -> str:
        num_words = max(1, (self.sizes.prompt_len or 1) // _TOKENS_A_WORD)
        return " ".join(
            "".join(rng.choices(ascii_lowercase, k=rng.randint(2, 7))) for _ in range(num_words)
        )

    def _ids(self, rng: Random) -> list[int]:
        if self.sizes.id_range is None:
            return []
        return rng.choices(self.sizes.id_range, k=self.sizes.prompt_len or 1)


def _is_share(number: int, share: float) -> bool:
    """Of all numbers so many are, evenly spread."""
    return math.floor((number + 1) * share + 1e-9) > math.floor(number * share + 1e-9)
