"""Owns what the executor benchmark has every slot do, made beforehand so that two sides can do the
same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.guides.real_text import VOCAB_SIZE, Started
from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import Matcher

NUM_DRAFTS = 3
NUM_NODES = NUM_DRAFTS + 1


@dataclass(frozen=True)
class Script:
    """What happens to every slot, iteration by iteration.

    offset:       tokens of its instance that a slot has behind it at the start, [B]
    tokens:       golden token and drafts, int32 [iterations, B, K + 1]
    num_accepted: drafts accepted by the verification that chose the golden token, int32
                  [iterations, B]
    """

    offset: list[int]
    tokens: np.ndarray
    num_accepted: np.ndarray


def started(
    grammars: list[CompiledGrammar], instances: list[list[int]], offset: list[int]
) -> list[Matcher]:
    """A matcher per slot, its part of the instance behind it."""
    return [
        Started(
            grammars[slot % len(grammars)], instances[slot % len(instances)][:num_tokens]
        ).matcher()
        for slot, num_tokens in enumerate(offset)
    ]


def write_script(
    grammars: list[CompiledGrammar],
    instances: list[list[int]],
    batch_size: int,
    iterations: int,
    seed: int = 0,
) -> Script:
    """Drafts follow the instance up to a random length, then some other allowed token; so most are
    accepted."""
    random = np.random.default_rng(seed)
    spare = [
        len(instances[slot % len(instances)]) - (iterations + 1) * NUM_NODES
        for slot in range(batch_size)
    ]
    offset = [int(random.integers(0, length)) for length in spare]
    matchers = started(grammars, instances, offset)
    tokens = np.full((iterations, batch_size, NUM_NODES), -1, np.int32)
    num_accepted = np.zeros((iterations, batch_size), np.int32)
    row = np.zeros((VOCAB_SIZE + 31) // 32, np.int32)
    for slot, matcher in enumerate(matchers):
        text = instances[slot % len(instances)]
        position = offset[slot]
        good = 0
        for iteration in range(iterations):
            num_accepted[iteration, slot] = good
            position += good
            good = int(random.choice(NUM_NODES, p=(0.1, 0.1, 0.2, 0.6)))
            path = [text[position], *text[position + 1 : position + 1 + good]]
            for token in path:
                matcher.accept(token)
            matcher.fill(row)
            others = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[:128_000])
            others = others[others != text[position + 1 + good]]
            if good < NUM_DRAFTS and len(others):
                path.append(int(random.choice(others)))
            tokens[iteration, slot, : len(path)] = path
            matcher.rollback(good)
            position += 1
            for token in text[position : position + good]:
                matcher.accept(token)
    return Script(offset, tokens, num_accepted)
