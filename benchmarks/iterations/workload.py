"""Owns the texts of the iteration benchmark's slots: instances of real-world schemas, each from a
different place on."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.guides.real_text import Case, Started, load_cases, load_vocabulary
from benchmarks.iterations.modes import WINDOWS
from specguide.config import GuideConfig
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler

NUM_WARM_UP = 10
SCHEMAS = (
    "Github_easy---o9959",
    "Github_hard---o13029",
    "Github_hard---o30532",
    "Github_hard---o63004",
    "Github_ultra---o9354",
    "Github_ultra---o66714",
    "JsonSchemaStore---traefik-v2",
    "Snowplow---sp_339_Normalized",
)


@dataclass(frozen=True)
class Workload:
    """What slots write: slot i goes on with case i, cyclically, from a place of its own.

    num_tokens: that a slot may write at most
    guide:      deadlines and threads
    """

    cases: Sequence[Case]
    grammars: Sequence[CompiledGrammar]
    acceptance: float
    num_tokens: int
    guide: GuideConfig

    def of_slot(self, slot: int) -> tuple[Started, list[int]]:
        """The grammar after the tokens behind the slot, and the tokens ahead of it."""
        ids = self.cases[slot % len(self.cases)].token_ids
        if len(ids) <= self.num_tokens:
            sys.exit(
                f"the texts are too short for so many iterations: {len(ids)} tokens, "
                f"{self.num_tokens} needed"
            )
        offset = random.Random(slot).randrange(len(ids) - self.num_tokens)
        return Started(self.grammars[slot % len(self.cases)], ids[:offset]), ids[
            offset : offset + self.num_tokens
        ]


def real_workload(
    schemas: Sequence[str],
    acceptance: float,
    num_iterations: int,
    guide: GuideConfig,
    num_lookup: int = 0,
) -> Workload:
    """Enough text for so many iterations, with room for the pattern's ups and downs.

    num_lookup: most drafts that are looked up; how many of them are right, no pattern says
    """
    vocabulary, tokenizer = load_vocabulary()
    cases = load_cases(tokenizer, schemas)
    compiler = GrammarCompiler(vocabulary, guide)
    grammars = [compiler.compile(case.guide) for case in cases]
    compiler.close()
    num_iterations += 2 * NUM_WARM_UP + 2
    num_tokens = round(num_iterations * acceptance * 1.2) + 2 * max(WINDOWS)
    if num_lookup:
        shortest = min(len(case.token_ids) for case in cases)
        num_tokens = max(num_tokens, min(num_iterations * (num_lookup + 1), shortest - 1))
    return Workload(cases, grammars, acceptance, num_tokens, guide)
