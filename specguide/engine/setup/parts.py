"""Owns the parts of which an engine is built. Comparisons and tests replace some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specguide.guided.grammar_stream.executor import ExecutorFactory, native_executor
from specguide.speculation import MaskedSampler, OneModelStep, Sampler, Step


@dataclass(frozen=True)
class EngineParts:
    """The factory of each part; a replacement is called like the default class.

    executor: the grammar executor, which runs the walks
    sampler:  chooses the target's tokens and the drafts
    step:     runs the iterations
    """

    executor: ExecutorFactory = native_executor
    sampler: Callable[..., Sampler] = MaskedSampler
    step: Callable[..., Step] = OneModelStep
