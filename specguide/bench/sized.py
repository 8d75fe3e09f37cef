"""Owns requests of one size, with which servers are compared: prompts that no prefix cache knows,
and answers that end only at the requested length."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from string import ascii_lowercase
from typing import Any

from specguide.bench.config import RequestSizes
from specguide.bench.workload import LoadRequest
from specguide.errors import InvalidParams

_NUM_FIELDS = 128
_SCHEMA = {
    "type": "object",
    "properties": {f"f{number:03d}": {"type": "string"} for number in range(_NUM_FIELDS)},
    "required": [f"f{number:03d}" for number in range(_NUM_FIELDS)],
    "additionalProperties": False,
}
"""Schema whose answers have more tokens than anybody asks for."""


@dataclass(frozen=True)
class WordTokens:
    """How many tokens a server makes of a prompt of words.

    each:   tokens per word
    around: tokens besides the words: of the chat template, and of a schema that it shows
    """

    each: float = 2.0
    around: float = 0.0

    def num_words(self, num_tokens: int, what: str) -> int:
        """Number of words in a prompt of this many tokens. Raises InvalidParams if there is no room
        for one word.

        what: the kind of request, as the error names it
        """
        least = math.ceil(self.around + self.each)
        if self.around and num_tokens < least:
            raise InvalidParams(
                f"the prompt of a {what} request has at least {least} tokens, since the server's "
                "chat template adds its own, and may add the schema: set --prompt-len to "
                f"{least} or more, or use --api completions",
                param="prompt_len",
            )
        return max(1, round((num_tokens - self.around) / self.each))


@dataclass(frozen=True)
class SizedWorkload:
    """Requests of `sizes`, all greedy.

    model: the model's name on the server
    seed:  different seeds give different prompts
    words: tokens of free and of guided prompts made of words
    """

    sizes: RequestSizes
    model: str
    seed: int = 0
    words: dict[bool, WordTokens] = field(default_factory=dict)

    def request(self, number: int) -> LoadRequest:
        """The request with this number; it is the same for the same number and seed."""
        sizes = self.sizes
        rng = Random(f"{self.seed}:{number}")
        is_guided = _is_share(number, sizes.guided_share)
        prompt = self._ids(rng) if self.is_of_ids else self._words(rng, self.num_words(is_guided))
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
            body["allow_truncation"] = True  # no instance ends that soon
        else:
            body["ignore_eos"] = True
        if sizes.api == "chat":
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        path = "chat/completions" if sizes.api == "chat" else "completions"
        kind, checked = ("json", _SCHEMA) if is_guided else ("free", None)
        return LoadRequest(number, kind, f"#{self.seed}:{number}", body, checked, path=path)

    @property
    def is_of_ids(self) -> bool:
        """Whether prompts are token ids, exactly as many as were asked for."""
        return self.sizes.api == "completions" and self.sizes.id_range is not None

    def num_words(self, is_guided: bool) -> int:
        """Number of words in a prompt. Raises InvalidParams if there is no room for one."""
        tokens = self.words.get(is_guided, WordTokens())
        return tokens.num_words(self._prompt_len, "guided" if is_guided else "free")

    @property
    def _prompt_len(self) -> int:
        return self.sizes.prompt_len or 1

    def _words(self, rng: Random, number: int) -> str:
        return " ".join(
            "".join(rng.choices(ascii_lowercase, k=rng.randint(2, 7))) for _ in range(number)
        )

    def _ids(self, rng: Random) -> list[int]:
        return rng.choices(self.sizes.id_range or (), k=self._prompt_len)


def _is_share(number: int, share: float) -> bool:
    """Whether the number belongs to this share of all numbers, which is spread evenly."""
    return math.floor((number + 1) * share + 1e-9) > math.floor(number * share + 1e-9)
