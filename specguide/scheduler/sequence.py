"""Owns SequenceState, the scheduler's state of one request: its slot, and how far it has come."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from specguide.batch import AdjustedOutput, Adjustment, Chunk, SamplingValues, SlotEntry, Start
from specguide.drafts.layout import DraftLayout
from specguide.errors import SpecguideError
from specguide.images import PreparedImage, RotaryPositions, content_ids
from specguide.request import FinishReason, Request
from specguide.scheduler.image_rows import ImageRows

HEAD_START_S = 10.0
"""What one step of priority is worth: a request runs as if it had come this many seconds earlier.

So of two requests that came within this time, the one of higher priority runs first. Yet no request
waits for ever: requests that come late enough are behind it, whatever their priority.
"""

_LONGEST_PAUSE = 32
"""Most iterations before a prefill whose first row was late is tried again."""

_MOST_STEPS = 10**6
"""Most steps of priority that count, up or down. With greater numbers, the time of arrival would be
lost in rounding."""


@dataclass(eq=False)
class SequenceState:
    """A request from `Scheduler.add` to its end. Only the scheduler changes it; its tokens change
    in `commit`.

    max_len:       the request ends at this number of tokens, prompt and output together
    own_end_ids:   the model's own end tokens, if they end the request
    end_ids:       all tokens that end it, own_end_ids included
    adjustment:    how its logits are adjusted; None: not at all
    layout:        the drafts that it takes; None: all
    slot:          its place in every fixed-address buffer; -1 while it waits
    num_computed:  tokens whose keys are stored, or will be by a planned prefill; the request
                   decodes once that is all of them
    num_scored:    prompt tokens whose log-probabilities have come; the first token counts, although
                   it has none
    num_in_flight: iterations with this request that are not committed yet
    has_walk:      its grammar walk has started in its slot
    is_held_first: it has been held ever since it began to decode, so that it has no drafts yet
    num_late:      times in a row that its prefill was held
    not_before:    iteration of the scheduler before which its prefill is not run again, unless
                   nothing else can run
    epoch:         times that it has lost its slot to another request; results of an iteration of an
                   earlier epoch are void
    error:         the error that it ends with once no iteration with it is under way
    prefix_keys:   page keys of its first pages, as far as they were computed
    saved_at:      positions at which a chunk ends, so that its state is saved
    num_expected:  output tokens that were expected of it when it came
    is_charged:    its client was charged for its prompt and the expected output
    """

    request: Request
    max_len: int
    own_end_ids: frozenset[int] = frozenset()
    end_ids: frozenset[int] = frozenset()
    adjustment: Adjustment | None = None
    layout: DraftLayout | None = None
    slot: int = -1
    num_computed: int = 0
    num_scored: int = field(init=False)
    num_in_flight: int = 0
    has_walk: bool = False
    is_held_first: bool = False
    num_late: int = 0
    not_before: int = 0
    epoch: int = 0
    error: SpecguideError | None = None
    prefix_keys: list[bytes] = field(default_factory=list)
    saved_at: tuple[int, ...] = ()
    num_expected: int = 0
    is_charged: bool = False

    def __post_init__(self) -> None:
        spec = self.request.spec
        self.num_steps = priority_steps(spec.priority)
        self.schedule_key = spec.arrival_s - HEAD_START_S * self.num_steps, spec.request_id
        """The order of requests: the least key runs first, and loses its pages last."""
        self.request_id, self.adapter = spec.request_id, spec.adapter
        self._prompt_len = len(spec.prompt_ids)
        self.client, self._output_ids = spec.client, self.request.output_ids
        self._min_output = spec.params.min_tokens
        self._most_output = self.max_len - self._prompt_len
        self.has_processors = bool(spec.params.logits_processors)
        self._sampling = SamplingValues.of(spec)
        self.num_scored = spec.first_scored
        self.images = [image for _, image in spec.images]
        self._rotary: RotaryPositions | None = None
        if any(image.grid is not None for image in self.images):
            self._rotary = RotaryPositions.of(self._prompt_len, spec.images)

    @property
    def num_tokens(self) -> int:
        """Number of prompt and output tokens."""
        return self._prompt_len + len(self._output_ids)

    @property
    def num_left(self) -> int:
        """Number of tokens whose keys are not planned yet."""
        return self.num_tokens - self.num_computed

    @property
    def is_at_its_end(self) -> bool:
        """Whether the iterations under way are surely its last. That is unknown for a request with
        a grammar: if its rows are late it is held, and must be planned again, else it would run on
        in the iterations of others, without rows."""
        if self.request.params.guide is not None:
            return False
        return self.num_in_flight > 0 and self.num_tokens + self.num_in_flight >= self.max_len

    @property
    def num_unscored(self) -> int:
        """Prompt tokens whose log-probabilities are asked for and have not come yet."""
        spec = self.request.spec
        return len(spec.prompt_ids) - self.num_scored if spec.has_prompt_logprobs else 0

    @property
    def num_reusable(self) -> int:
        """Number of its first tokens whose keys may come from the prefix cache, since no
        log-probabilities are needed behind them."""
        return self.num_scored - 1 if self.num_unscored else self.num_tokens

    def ids_to_score(self, start: int, end: int) -> Sequence[int]:
        """Prompt tokens that are scored when positions `start` … `end` - 1 are computed: the token
        after each."""
        return self.request.spec.prompt_ids[start + 1 : end + 1] if self.num_unscored else ()

    def tokens(self, start: int, end: int) -> list[int]:
        """Tokens of prompt and output at positions `start` … `end` - 1."""
        prompt_ids, output_ids = self.request.spec.prompt_ids, self.request.output_ids
        first_output = max(0, start - len(prompt_ids))
        return [
            *prompt_ids[start:end],
            *output_ids[first_output : max(0, end - len(prompt_ids))],
        ]

    def key_ids(self, start: int, end: int) -> list[int]:
        """As `tokens`, with numbers that name their content in place of images."""
        return self._with_images(start, end, content_ids)

    def _with_images(
        self, start: int, end: int, ids_of: Callable[[PreparedImage, slice], Sequence[int]]
    ) -> list[int]:
        """As `tokens`, with other ids for the places of images. ids_of: returns those of a part of
        an image's places"""
        tokens = self.tokens(start, end)
        for first, image in self.request.spec.images:
            ends = (bisect_left(image.places, edge - first) for edge in (start, end))
            part = slice(*ends)
            if part.start < part.stop:
                places = image.places[part]
                for place, token in zip(places, ids_of(image, part), strict=True):
                    tokens[first + place - start] = token
        return tokens

    def entry(self, *, chooses: bool = True) -> SlotEntry:
        """What the step must know of it when it enters its slot.

        chooses: the iteration chooses a token; else the entry leaves out the tokens so far, which
                 may be many
        """
        request = self.request
        adjusted = None
        if self.adjustment is not None:
            token_ids = (request.spec.prompt_ids, request.output_ids) if chooses else ((), ())
            adjusted = AdjustedOutput(self.adjustment, *map(tuple, token_ids))
        return SlotEntry(
            max_len=self.max_len,
            end_ids=tuple(self.end_ids),
            sampling=self._sampling,
            adjusted=adjusted,
            layout=self.layout,
            guided_drafts=request.spec.has_guided_drafts,
            adapter=self.adapter,
            position_shift=self._rotary.shift if self._rotary is not None else 0,
        )

    def enter_slot(self, slot: int) -> None:
        """Give the waiting request a slot. Sets its `queue_s`."""
        self.slot = slot
        waited_s = time.perf_counter() - self.request.arrival_s
        self.request.metrics.queue_s = self.request.metrics.queue_s or waited_s

    def find_keys(self, num_cached: int) -> None:
        """Take the number of its first tokens whose keys the prefix cache has."""
        self.num_computed = num_cached
        if not self.request.output_ids:
            self.request.metrics.num_cached = num_cached

    def next_chunk(self, end: int, images: ImageRows) -> Chunk:
        """Plan its next tokens, from the first one that is not planned yet up to position `end` -
        1. images: has rows for its images"""
        start, self.num_computed = self.num_computed, end
        is_last = end == self.num_tokens
        return Chunk(
            self._with_images(
                start, end, lambda image, part: [-1 - row for row in images.rows(image)[part]]
            ),
            start,
            None if is_last else self.tokens(end, end + 1)[0],
            is_last and self._starts_walk(),
            self.ids_to_score(start, end),
            self.request.spec.score_temperature,
            self._axes(start, end),
        )

    def _axes(self, start: int, end: int) -> tuple[list[int], list[int], list[int]] | None:
        """See Chunk.axes."""
        if self._rotary is None:
            return None
        of_output = np.arange(max(start, self._prompt_len), end) + self._rotary.shift
        of_prompt = self._rotary.axes[:, start:end]
        time_, height, width = (np.concatenate((axis, of_output)).tolist() for axis in of_prompt)
        return time_, height, width

    def start(self, row: int) -> Start:
        """What an iteration must know in which the request begins to decode, in row `row`."""
        num_before = self.num_tokens - 1
        last_id = self.tokens(num_before, self.num_tokens)[0]
        return Start(row, self.entry(), last_id, num_before, self._starts_walk())

    def take(self, tokens: Sequence[int]) -> tuple[int, FinishReason | None]:
        """Add output tokens, up to the one that ends the request. Returns how many were added, and
        why the request ends with the last of them, or None."""
        request, end_ids = self.request, self.end_ids
        output_ids, add_text = request.output_ids, request.text.add
        num_output = num_before = len(output_ids)
        for token in tokens:
            output_ids.append(token)
            num_output += 1
            stop = add_text(token, num_output >= self._min_output)
            if stop is not None or token in end_ids or num_output >= self._most_output:
                request.stop_reason = stop
                return num_output - num_before, self._ending(token)
        return num_output - num_before, None

    def take_scores(self, chunk: Chunk) -> None:
        """Count a chunk's scored prompt tokens. They count even if the request has lost its slot
        since."""
        if chunk.start + 1 <= self.num_scored:
            self.num_scored = max(self.num_scored, chunk.start + 1 + len(chunk.scored_ids))

    def hold_prefill(self, num_planned: int) -> None:
        """Plan its last token once more, since its row was late and no token could be chosen. The
        pause before that doubles each time.

        num_planned: number of the scheduler's iterations so far
        """
        self.num_computed = self.num_tokens - 1
        self.num_late += 1
        self.not_before = num_planned + min(2**self.num_late, _LONGEST_PAUSE)

    def lose_slot(self) -> None:
        """Reset the request to waiting; later it starts with a new matcher."""
        self.slot = -1
        self.num_computed = 0
        self.num_in_flight = 0
        self.has_walk = False
        self.is_held_first = False
        self.num_late = 0
        self.not_before = 0
        self.error = None
        self.epoch += 1
        self.request.metrics.num_preemptions += 1

    def _starts_walk(self) -> bool:
        """Whether its grammar walk has not started in its slot yet; marks it as started."""
        starts_walk = not self.has_walk
        self.has_walk = True
        return starts_walk

    def _ending(self, token: int) -> FinishReason:
        """Why it ends with its last token. Some stop strings are found only at the end of the
        text."""
        request = self.request
        if request.stop_reason is None:
            request.stop_reason = request.text.end()
        if request.stop_reason is not None:
            return "stop"
        if token not in self.end_ids:
            return "length"
        if token not in self.own_end_ids:
            request.stop_reason = token
        return "stop"


def priority_steps(priority: int) -> int:
    """A priority as a number of steps, within the limits that count."""
    return max(-_MOST_STEPS, min(priority, _MOST_STEPS))


def finish(request: Request, reason: FinishReason, error: SpecguideError | None = None) -> None:
    """Write into a request how it has ended, and its final metrics."""
    request.finish_reason = reason
    request.error = error
    request.text.end()
    request.metrics.output_tokens = len(request.output_ids)
    request.metrics.total_s = time.perf_counter() - request.arrival_s
