"""Owns forced acceptance, for timing on random weights: their texts mean nothing, and no draft head
predicts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.kernels import BitmaskRows, LogitsShare
from specguide.slots import SlotTable
from specguide.speculation.batch_sampling import Sampling
from specguide.speculation.forward_input import Nodes
from specguide.speculation.sampler import MaskedSampler, Sampler

_PERIOD = 1024


class ForcedAcceptance:
    """Makes the target write a given text, and the drafter guess as much of it as a seeded pattern
    says.

    So grammars walk real text, and every mode accepts the same: in each iteration of each slot a
    number of drafts drawn from the binomial distribution of K trials.

    text:              int32 [num_slots, L], the token of each of SlotTable's slots at each
                       position, prompts included
    acceptance_length: mean of the pattern, golden token included, 1 to K + 1
    num_draft_tokens:  K
    """

    def __init__(
        self, text: Tensor, acceptance_length: float, num_draft_tokens: int, seed: int = 0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        trials = torch.rand(_PERIOD, len(text), num_draft_tokens, generator=generator)
        num_guessed = (trials * num_draft_tokens < acceptance_length - 1).sum(-1)
        places = torch.arange(1, num_draft_tokens + 1)
        self._patterns = (num_guessed[..., None] >= places).to(text.device)
        self._iteration = torch.zeros(1, dtype=torch.int64, device=text.device)
        self._text = text
        self._places = places.to(text.device)
        self._drafts = text[:0]
        self._is_guessed = text[:0] == 0

    def sampler(
        self, grammar: GrammarStream, state: SlotTable, *, guided_drafts: bool = True
    ) -> Sampler:
        """The engine's own sampler, overruled."""
        own = MaskedSampler(grammar, state, guided_drafts=guided_drafts)
        return ForcedSampler(own, self, state)

    def target(self, tokens: Tensor, slots: Tensor, start: Tensor, depths: Tensor) -> None:
        """Write the text over what the target says, `tokens` int32 [B, N] after nodes that are
        `depths` int64 [N] or [B, N] behind `start` int64 [B]."""
        tokens.copy_(self._text[:, 1:][slots[:, None], start[:, None] + depths])

    def prepare_drafts(self, slots: Tensor, start: Tensor) -> None:
        """Begin an iteration: look up its drafts, behind the golden tokens at `start` int64 [B]."""
        self._iteration.add_(1).remainder_(_PERIOD)
        self._drafts = self._text[slots[:, None], start[:, None] + self._places]
        self._is_guessed = self._patterns[self._iteration, slots]

    def draft(self, drafts: Tensor, num_before: int | Tensor) -> Tensor:
        """The draft of each slot behind so many others, or behind int32 [B] of each, int32 [B]: the
        text's, or as it was drafted. A chain that is full has no place for it, so any will do."""
        if isinstance(num_before, int):
            is_guessed, token = self._is_guessed[:, num_before], self._drafts[:, num_before]
            return torch.where(is_guessed, token, drafts)
        place = num_before[:, None].clamp(max=self._drafts.shape[1] - 1).long()
        is_guessed, token = self._is_guessed.gather(1, place), self._drafts.gather(1, place)
        return torch.where(is_guessed, token, drafts[:, None])[:, 0]

    def children(self, tokens: Tensor, logprobs: Tensor, num_before: int) -> tuple[Tensor, Tensor]:
        """Children of a tree's nodes, int32 and float32 [B, w, k], changed in place: the text's
        next token becomes the first node's likeliest, and that node is on its path too; or all stay
        as they were drafted."""
        is_guessed, token = self._is_guessed[:, num_before], tokens[:, 0, 0]
        torch.where(is_guessed, self._drafts[:, num_before], token, out=token)
        logprobs[:, 0, 0].masked_fill_(is_guessed, 0.0)
        return tokens, logprobs


@dataclass(frozen=True)
class ForcedText:
    """Makes the sampler of an acceptance that is forced: plain data, which ranks are told, each on
    a device of its own.

    lines: text of each slot of the table, all of one length
    The others are as in ForcedAcceptance.
    """

    lines: Sequence[Sequence[int]]
    acceptance_length: float
    num_draft_tokens: int

    def __call__(
        self, grammar: GrammarStream, state: SlotTable, *, guided_drafts: bool = True
    ) -> Sampler:
        """The engine's own sampler, overruled."""
        text = torch.tensor(self.lines, dtype=torch.int32, device=state.ids.device)
        forced = ForcedAcceptance(text, self.acceptance_length, self.num_draft_tokens)
        return forced.sampler(grammar, state, guided_drafts=guided_drafts)


class ForcedSampler:
    """A sampler that lets another one choose, so that its work is done and timed, and then says
    what `forced` does."""

    def __init__(self, own: Sampler, forced: ForcedAcceptance, state: SlotTable) -> None:
        self.guided_drafts = own.guided_drafts
        self._own, self._forced, self._state = own, forced, state
        self._is_prepared = False

    def choose(self, logits: Tensor | LogitsShare, nodes: Nodes, sampling: Sampling) -> Tensor:
        target_tokens = self._own.choose(logits, nodes, sampling)
        inputs = nodes.inputs
        self._forced.target(
            target_tokens, self._state.ids[inputs.slots], inputs.start, nodes.depths
        )
        self._is_prepared = False
        return target_tokens

    def draft(
        self,
        logits: Tensor | LogitsShare,
        rows: BitmaskRows | None,
        slots: Tensor,
        num_before: int | Tensor,
        ids: Tensor | None,
    ) -> Tensor:
        self._prepare(slots)
        return self._forced.draft(self._own.draft(logits, rows, slots, num_before, ids), num_before)

    def children(
        self,
        logits: Tensor,
        rows: BitmaskRows | None,
        slots: Tensor,
        num_before: int,
        num_children: int,
        ids: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        self._prepare(slots)
        own = self._own.children(logits, rows, slots, num_before, num_children, ids)
        return self._forced.children(*own, num_before)

    def _prepare(self, slots: Tensor) -> None:
        """Before the first draft of an iteration; its golden tokens are known then."""
        if not self._is_prepared:
            self._forced.prepare_drafts(slots, self._state.lengths[slots])
            self._is_prepared = True
