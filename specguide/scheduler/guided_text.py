"""Owns the text of a guided output with stop strings or stop tokens: these end it only where its
grammar may end, so that the output still matches."""

from __future__ import annotations

from collections.abc import Collection

from specguide.guided.ends import GrammarEnds
from specguide.params import SamplingParams
from specguide.scheduler.output_text import OutputText, hidden_ends
from specguide.tokenizer import IncrementalDetokenizer


class GuidedText(OutputText):
    """An OutputText that stop tokens can end, too.

    ends:          tells where the output's grammar may end
    eos_token_ids: the model's own end tokens
    """

    def __init__(
        self,
        detokenizer: IncrementalDetokenizer,
        params: SamplingParams,
        ends: GrammarEnds,
        eos_token_ids: Collection[int] = (),
    ) -> None:
        super().__init__(
            detokenizer,
            params.stop or (),
            params.include_stop_str_in_output,
            ends.may_end,
            hidden_ends(eos_token_ids, params),
        )
        self._ends = ends
        self._stop_token_ids = frozenset(params.stop_token_ids)

    def add(self, token: int, may_stop: bool = True) -> str | int | None:
        """As OutputText.add, but also returns the stop token that ends the output."""
        self._ends.add(token)
        stop = super().add(token, may_stop)
        if stop is not None or not may_stop or token not in self._stop_token_ids:
            return stop
        if not self._ends.may_end():
            return None
        return self.end() or token
