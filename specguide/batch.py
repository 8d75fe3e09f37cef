"""Owns the data types of one iteration: Batch and its parts, GuideSnapshot, scores, StepOutput.

A Batch is plain data: it can be pickled and sent to another rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from specguide.drafts.layout import DraftLayout, IterationLayouts
from specguide.errors import RequestError
from specguide.images import PreparedImage
from specguide.params.rules import LEAST_TOP_P
from specguide.request import RequestSpec

if TYPE_CHECKING:
    from torch import Tensor


DRAFT_ORIGINS = ("none", "model", "forced", "lookup")
"""Who proposed a draft, by number: nobody, a draft head or model, the grammar, or a lookup in
earlier text."""


class WalkStart(NamedTuple):
    """A request whose grammar walk starts with this iteration.

    matcher:   None for a free request
    token_ids: the request's tokens so far
    layout:    the drafts that the request takes; None: all
    restart:   makes a new matcher that has accepted the given tokens; None for a free request
    """

    slot: int
    matcher: Any
    token_ids: Sequence[int]
    layout: DraftLayout | None = None
    restart: Callable[[Sequence[int]], Any] | None = None


@dataclass(frozen=True)
class GuideSnapshot:
    """What the grammar callbacks of one iteration may read; immutable, handed over through a queue.

    started:   the requests whose walk starts
    continued: slots that go on with the matcher that they have
    layout:    what the iteration drafts; None: the whole draft layout
    """

    started: tuple[WalkStart, ...]
    continued: tuple[int, ...]
    layout: DraftLayout | None = None


@dataclass(frozen=True)
class Chunk:
    """The part of a request that one prefill iteration computes: the keys of some of its tokens.

    token_ids:   the tokens; -1 - row for one that is a vector of an image, which that row of the
                 device's memory holds
    start:       position of the first token
    next_id:     the token after the last one; None: it does not exist yet, and this pass chooses it
    starts_walk: the request's grammar walk starts with this iteration
    scored_ids:  prompt tokens to score: entry i is the token that follows token_ids[i]
    score_temperature: the logits behind these scores are divided by it
    axes:        positions in time, height and width by which each token is rotated, see
                 RotaryPositions; None: those of the sequence
    """

    token_ids: Sequence[int]
    start: int
    next_id: int | None = None
    starts_walk: bool = True
    scored_ids: Sequence[int] = ()
    score_temperature: float = 1.0
    axes: tuple[Sequence[int], Sequence[int], Sequence[int]] | None = None

    @property
    def end(self) -> int:
        """Position after the last token."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True)
class Adjustment:
    """What a request's parameters do to its logits, as token ids; see SamplingParams for each.

    allowed_ids:         the only tokens that may be output; None: all
    forbidden_ids:       tokens that are never output
    forbidden_sequences: sequences of two or more tokens; the last never follows the others
    bias:                what is added to a token's logit, by token id
    min_tokens:          output tokens before which none of end_ids is output
    end_ids:             the tokens that min_tokens holds back
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
    """An adjustment, and the request's tokens so far, on which it depends."""

    adjustment: Adjustment
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]


class SamplingValues(NamedTuple):
    """How one request's tokens are chosen; see SamplingParams.

    is_scored: the request asks for log-probabilities of its output
    """

    seed: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    is_scored: bool = False

    @classmethod
    def of(cls, spec: RequestSpec) -> SamplingValues:
        """The sampling values that a request asks for."""
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

    max_len:       the request ends at this number of tokens, prompt and output together
    end_ids:       tokens that end it
    adjusted:      how its logits are adjusted; None: they stay as they are
    layout:        the drafts that it takes; None: all
    guided_drafts: its drafts are chosen among the tokens that its grammar allows
    adapter:       its LoRA adapter, 1 … N; 0: none
    position_shift: what is added to the positions by which tokens behind its prompt are rotated
    """

    max_len: int
    end_ids: tuple[int, ...]
    sampling: SamplingValues
    adjusted: AdjustedOutput | None = None
    layout: DraftLayout | None = None
    guided_drafts: bool = True
    adapter: int = 0
    position_shift: int = 0


class Start(NamedTuple):
    """A request that decodes from this iteration on. The cache has the keys of all its tokens but
    the last.

    row:         its row in the batch
    entry:       what its slot is to hold
    last_id:     its last token; this iteration runs it without drafts
    position:    position of that token
    starts_walk: the request's grammar walk starts with this iteration
    """

    row: int
    entry: SlotEntry
    last_id: int
    position: int
    starts_walk: bool = True


class Piggyback(NamedTuple):
    """Chunks of prompts that a decode iteration computes in the same pass of the target (Agrawal et
    al. 2023, "SARATHI"). No chunk has the last token of its request.

    slots:        the slot of each chunk's request, which has no row of its own in the batch
    block_tables: page ids of each chunk's request
    chunks:       the chunks; each has its next_id
    adapters:     the LoRA adapter of each chunk's request, see SlotEntry
    """

    slots: tuple[int, ...] = ()
    block_tables: tuple[tuple[int, ...], ...] = ()
    chunks: tuple[Chunk, ...] = ()
    adapters: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Number of prompt tokens in all chunks."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)


NO_PIGGYBACK = Piggyback()


class StateCopy(NamedTuple):
    """A copy of the state of linear attention from one row of its memory to another. The first rows
    are the slots'; states are saved in those behind."""

    source: int
    target: int


class ImageToEncode(NamedTuple):
    """An image whose vectors go into these rows of the device's memory, one for each of its
    `places`."""

    rows: tuple[int, ...]
    image: PreparedImage


@dataclass(frozen=True)
class Batch:
    """The host's frozen plan of one iteration. All requests prefill, or all decode; a decode batch
    may carry chunks of other requests' prompts. Plain data.

    request_ids:  the requests, in batch order
    slots:        the slot of each request
    block_tables: page ids of each request
    chunks:       in a prefill, the chunk of each request; empty in a decode batch, whose input is
                  golden tokens and drafts
    entries:      in a prefill, what the slot of each request is to hold
    has_grown:    in a decode batch, whether the block table of each request has changed
    epochs:       how often each request had lost its slot when the batch was planned
    processed:    rows of the requests whose logits processors are to be called
    levels:       how much of the draft layout it verifies and drafts; None: all
    starts:       in a decode batch, the requests that decode for the first time
    piggyback:    the chunks of prompts that a decode batch carries
    restored:     copies of states before it runs
    saved:        copies of states behind it
    images:       images to encode before it runs
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
    restored: tuple[StateCopy, ...] = ()
    saved: tuple[StateCopy, ...] = ()
    images: tuple[ImageToEncode, ...] = ()

    @property
    def first_rows(self) -> frozenset[int]:
        """Rows of the requests that have no drafts to verify."""
        if self.is_prefill:
            return frozenset(range(len(self.slots)))
        return frozenset(start.row for start in self.starts)

    @property
    def is_prefill(self) -> bool:
        return bool(self.chunks)

    @property
    def num_prompt_tokens(self) -> int:
        """Number of prompt tokens whose keys it computes."""
        return sum(len(chunk.token_ids) for chunk in (*self.chunks, *self.piggyback.chunks))


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Log-probabilities after each of N nodes of B requests: of the token that was chosen there,
    and of the M likeliest tokens.

    logprobs:     float32 [B, N], log-probability of the chosen token
    ranks:        int32 [B, N], number of tokens that are at least as likely, itself included
    top_ids:      int32 [B, N, M], the likeliest tokens, likeliest first
    top_logprobs: float32 [B, N, M], their log-probabilities
    """

    logprobs: Tensor
    ranks: Tensor
    top_ids: Tensor
    top_logprobs: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """All four tensors, in the order of the fields."""
        return self.logprobs, self.ranks, self.top_ids, self.top_logprobs

    def map(self, change: Callable[[Tensor], Tensor]) -> TokenScores:
        """The same scores, with each tensor replaced by `change(tensor)`."""
        return TokenScores(*map(change, self.tensors()))


@dataclass(frozen=True)
class StepOutput:
    """The results of one iteration for each request of the batch; host tensors.

    tokens:       int32 [B, K + 1], the accepted drafts, then the golden token
    num_tokens:   int32 [B], how many of them count; 0 where the slot was held
    drafts:       int32 [B, K], the drafts that were verified, -1 for none; [B, 0] in a prefill
    scores:       scores of `tokens`; None: no request asks for them
    prompt_scores: scores of prompt tokens, [S, 1, …] for all of Chunk.scored_ids in the batch, in
                   order
    failures:     errors of logits processors, by row and index into the row's tokens; the token
                  there is -1
    origins:      uint8 [B, W], who proposed each verified draft, as in DRAFT_ORIGINS; None: a draft
                  head or model proposed all
    num_drafts:   int32 [B], how many drafts were verified, where `drafts` has only those on the
                  accepted path; None: `drafts` has all
    """

    tokens: Tensor
    num_tokens: Tensor
    drafts: Tensor
    scores: TokenScores | None
    prompt_scores: TokenScores | None
    failures: Mapping[tuple[int, int], RequestError]
    origins: Tensor | None = None
    num_drafts: Tensor | None = None
