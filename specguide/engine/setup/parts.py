"""Owns which parts an engine is built of: a comparison, or a test, puts others in their places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specguide.guided.grammar_stream.executor import ExecutorFactory, native_executor
from specguide.speculation import MaskedSampler, OneModelStep, Sampler, Step


@dataclass(frozen=True)
class EngineParts:
    """What makes each part; called as the class that stands here.

    executor: of the grammar's walks
    sampler:  what the target says and the drafter guesses
    step:     the iteration
    """

    executor: ExecutorFactory = native_executor
    sampler: Callable[..., Sampler] = MaskedSampler
    step: Callable[..., Step] = OneModelStep
