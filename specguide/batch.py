"""Owns the plain types of one iteration: Batch and its parts, GuideSnapshot, scores, StepOutput.

A Batch is plain data, so that it can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from specguide.drafts.layout import DraftLayout, IterationLayouts
from specguide.errors import RequestError
from specguide.params.rules import LEAST_TOP_P
from specguide.request import RequestSpec

if TYPE_CHECKING:
    from torch import Tensor


DRAFT_ORIGINS = ("none", "model", "forced", "lookup")
"""Who proposed a draft, by number: nobody, a draft head, the grammar, or what was there before."""


class WalkStart(NamedTuple):
    """A request's first iteration.

    matcher:   None for a free request
    token_ids: its tokens so far
    layout:    the drafts that it takes; None: all
    restart:   makes a matcher anew, behind further tokens; None where the request is free
    """

    slot: int
    matcher: Any
    token_ids: Sequence[int]
    layout: DraftLayout | None = None
    restart: Callable[[Sequence[int]], Any] | None = None


@dataclass(frozen=True)
class GuideSnapshot:
    """What the grammar callbacks of one iteration may read; immutable, handed over through a queue.

    `continued` slots go on with the matcher that they have. The iteration drafts `layout`; None:
    all that there may be.
    """

    started: tuple[WalkStart, ...]
    continued: tuple[int, ...]
    layout: DraftLayout | None = None


@dataclass(frozen=True)
class Chunk:
    """What a prefill computes of a request: the keys of some of its tokens.

    token_ids:   tokens
    start:       position of the first
    next_id:     the token after the last; None where there is none yet: the pass says it
    starts_walk: the request's grammar starts with this iteration
    scored_ids:  prompt tokens that are scored, one after each of its first tokens
    score_temperature: by which their logits are divided
    """

    token_ids: Sequence[int]
    start: int
    next_id: int | None = None
    starts_walk: bool = True
    scored_ids: Sequence[int] = ()
    score_temperature: float = 1.0

    @property
    def end(self) -> int:
        """Position after the last."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True)
class Adjustment:
    """What a request's parameters do to its logits, as token ids; see SamplingParams for each.

    allowed_ids:         None allows all
    forbidden_ids:       tokens that never come
    forbidden_sequences: of several tokens; the last never comes behind the others
    bias:                added, by token id
    min_tokens:          before which none of end_ids comes
    repetition, frequency, presence: penalties; 1, 0 and 0 do nothing
    """

    allowed_ids: tuple[int, ...] | None
    forbidden_ids: tuple[int, ...]
    forbidden_sequences: tuple[tuple[int, ...], ...]
    bias: Mapping[int, float]
    min_tokens: int
    end_ids: tuple[int, ...]
    repetition: float
    frequency: float
    presence: float


class AdjustedOutput(NamedTuple):
    """An adjustment, and the tokens so far, of which it depends."""

    adjustment: Adjustment
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]


class SamplingValues(NamedTuple):
    """How one request's tokens are chosen; see SamplingParams.

    is_scored: log-probabilities of its output are asked for
    """

    seed: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    is_scored: bool = False

    @classmethod
    def of(cls, spec: RequestSpec) -> SamplingValues:
        """What a request asks for."""
        params = spec.params
        return cls(
            seed=spec.seed,
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=max(params.top_p, LEAST_TOP_P),
            min_p=params.min_p,
            is_scored=params.logprobs is not None,
        )


@dataclass(frozen=True)
class SlotEntry:
    """What the step must know of a request that enters a slot.

    max_len:       tokens, prompt and output, at which it ends
    end_ids:       tokens that end it
    adjusted:      None where its logits stay as they are
    layout:        the drafts that it takes; None: all
    guided_drafts: its drafts are chosen among what its grammar allows
    """

    max_len: int
    end_ids: tuple[int, ...]
    sampling: SamplingValues
    adjusted: AdjustedOutput | None = None
    layout: DraftLayout | None = None
    guided_drafts: bool = True


class Start(NamedTuple):
    """A request that decodes from this iteration on: the keys of all its tokens but the last are
    there.

    row:         its place in the batch
    entry:       what its slot is to hold
    last_id:     its last token, which this iteration verifies alone
    position:    of that token
    starts_walk: the request's grammar starts with this iteration
    """

    row: int
    entry: SlotEntry
    last_id: int
    position: int
    starts_walk: bool = True


class Piggyback(NamedTuple):
    """Chunks of prompts whose keys a decode iteration computes in the target's same pass, none of
    them with the last token of its request (Agrawal et al. 2023, "SARATHI").

    slots:        of each chunk's request, which is in no other place of the batch
    block_tables: page ids of each
    chunks:       with the token after each one's last
    """

    slots: tuple[int, ...] = ()
    block_tables: tuple[tuple[int, ...], ...] = ()
    chunks: tuple[Chunk, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Prompt tokens of all chunks together."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)


NO_PIGGYBACK = Piggyback()


@dataclass(frozen=True)
class Batch:
    """The host's frozen plan of one iteration: all requests prefill, or all decode, with chunks of
    others' prompts beside. Plain data.

    request_ids:  in batch order
    slots:        of each request
    block_tables: page ids of each request
    chunks:       of each request in a prefill; empty when decoding: the input is golden token and
                  drafts
    entries:      of each request in a prefill, what its slot is to hold
    has_grown:    of each request when decoding: its block table has changed
    epochs:       of each request: how often it had lost its slot when this was planned
    processed:    places in the batch of the requests for which logits processors are to be called
    levels:       how much of all drafts it verifies and drafts; None: all
    starts:       the requests of a decode iteration that were not in one before
    piggyback:    what a decode iteration computes beside
    """

    request_ids: tuple[int, ...]
    slots: tuple[int, ...]
    block_tables: tuple[tuple[int, ...], ...]
    chunks: tuple[Chunk, ...] = ()
    entries: tuple[SlotEntry, ...] = ()
    has_grown: tuple[bool, ...] = ()
    epochs: tuple[int, ...] = ()
    processed: tuple[int, ...] = ()
    levels: IterationLayouts | None = None
    starts: tuple[Start, ...] = ()
    piggyback: Piggyback = NO_PIGGYBACK

    @property
    def first_rows(self) -> frozenset[int]:
        """Places in the batch of the requests of which no draft is verified."""
        if self.is_prefill:
            return frozenset(range(len(self.slots)))
        return frozenset(start.row for start in self.starts)

    @property
    def is_prefill(self) -> bool:
        return bool(self.chunks)

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens whose keys it computes of prompts."""
        return sum(len(chunk.token_ids) for chunk in (*self.chunks, *self.piggyback.chunks))


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Log-probabilities of the tokens chosen in B requests after N nodes each, and of the M
    likeliest there.

    logprobs:     float32 [B, N], of the token chosen
    ranks:        int32 [B, N], tokens that are at least as likely, itself included
    top_ids:      int32 [B, N, M], likeliest first
    top_logprobs: float32 [B, N, M]
    """

    logprobs: Tensor
    ranks: Tensor
    top_ids: Tensor
    top_logprobs: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """All, in this order."""
        return self.logprobs, self.ranks, self.top_ids, self.top_logprobs

    def map(self, change: Callable[[Tensor], Tensor]) -> TokenScores:
        """The same with `change` of each tensor in its place."""
        return TokenScores(*map(change, self.tensors()))


@dataclass(frozen=True)
class StepOutput:
    """What one iteration gave, per request of the batch; host tensors.

    tokens:       int32 [B, K + 1], the accepted drafts, then the golden token
    num_tokens:   int32 [B], how many of them count; 0 where the slot was held
    drafts:       int32 [B, K], those that were verified, -1 for none; [B, 0] in a prefill
    scores:       of the tokens, where a request asks for them
    prompt_scores: of the tokens of prompts, [S, 1, …] for all of Chunk.scored_ids in the batch, in
                   order
    failures:     why a token is -1, by request of the batch and place among its tokens, where a
                  logits processor failed
    origins:      uint8 [B, W], who proposed the drafts that were verified, as in DRAFT_ORIGINS;
                  None: all a draft head
    num_drafts:   int32 [B], how many were verified where `drafts` has but those on an accepted
                  path; None: it has all
    """

    tokens: Tensor
    num_tokens: Tensor
    drafts: Tensor
    scores: TokenScores | None
    prompt_scores: TokenScores | None
    failures: Mapping[tuple[int, int], RequestError]
    origins: Tensor | None = None
    num_drafts: Tensor | None = None
