"""Owns the 128k vocabulary and the real-world schemas and instances that benchmarks walk through
it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from benchmarks.common import data_path, read_jsonl
from specguide import Guide
from specguide.guided.backend import GrammarWrapper
from specguide.guided.matcher import Matcher
from specguide.tokenizer.token_bytes import token_bytes
from specguide.tokenizer.vocabulary import Vocabulary

VOCAB_SIZE = 128_256
EOS = (128_001, 128_009)


@dataclass(frozen=True)
class Case:
    """A schema as a guide, and the tokens of its longest valid instance."""

    guide: Guide
    token_ids: list[int]


@dataclass(frozen=True, eq=False)
class Started(GrammarWrapper):
    """A compiled grammar whose matchers have some tokens behind them."""

    token_ids: Sequence[int]

    @property
    def num_bytes(self) -> int:
        """Those of the grammar."""
        return self.inner.num_bytes

    def matcher(self) -> Matcher:
        """Raises SystemExit where the grammar refuses the tokens."""
        matcher = self.inner.matcher()
        if not all(matcher.accept(token) for token in self.token_ids):
            raise SystemExit("an instance is refused by the grammar of its schema")
        return matcher


def load_vocabulary() -> tuple[Vocabulary, Tokenizer]:
    """The vocabulary of 128,256 tokens and its tokenizer."""
    packed = data_path("tokenizers", "llama3-tokenizer.json.gz").read_bytes()
    tokenizer = Tokenizer.from_str(gzip.decompress(packed).decode())
    return Vocabulary(
        token_bytes(tokenizer, VOCAB_SIZE, frozenset(range(128_000, VOCAB_SIZE))), EOS
    ), tokenizer


def load_cases(tokenizer: Tokenizer, schemas: Sequence[str]) -> list[Case]:
    """The cases by their schemas' names in JSONSchemaBench."""
    wanted: dict[str, Any] = {
        record["id"]: record
        for record in read_jsonl(data_path("jsonschemabench.jsonl"))
        if record["id"] in schemas
    }
    cases = []
    for name in schemas:
        texts = [
            json.dumps(test["data"], ensure_ascii=False)
            for test in wanted[name]["tests"]
            if test["valid"]
        ]
        ids = tokenizer.encode(max(texts, key=len), add_special_tokens=False).ids
        cases.append(Case(Guide(json_schema=wanted[name]["schema"]), ids))
    return cases
