"""Owns EngineStats: what an engine has done since it started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class EngineStats:
    """Counts and times since the engine started. Times in seconds.

    iterations:        iterations of the step, prefills included
    output_tokens:     tokens given to requests
    step_s:            time in iterations
    grammar_s:         time that callbacks took on the grammar stream
    grammar_exposed_s: of it, what the forward stream waited for; the rest was hidden behind the models. None on a GPU,
                       where only a timeline tells
    grammar:           the executor's counters: fills, accepts, rollbacks, held slots …
    """

    iterations: int
    output_tokens: int
    step_s: float
    grammar_s: float
    grammar_exposed_s: float | None
    grammar: Mapping[str, int]

    @property
    def grammar_hidden_s(self) -> float | None:
        """Grammar time that cost the iteration nothing; None where that is not known."""
        return None if self.grammar_exposed_s is None else max(0.0, self.grammar_s - self.grammar_exposed_s)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "grammar_hidden_s": self.grammar_hidden_s}
