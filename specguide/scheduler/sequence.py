"""Owns what the scheduler knows of one request: where it stands, and how far it has come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from specguide.batch import AdjustedOutput, Adjustment, Chunk, SamplingValues, SlotEntry, Start
from specguide.drafts.layout import DraftLayout
from specguide.errors import SpecguideError
from specguide.request import FinishReason, Request

HEAD_START_S = 10.0
"""What one step of priority is worth: a request runs as if it had come so much earlier, seconds.

So of two requests that came within that time the one of higher priority runs first, and yet none
waits for ever: who comes late enough is behind it, whatever their priority.
"""

_LONGEST_PAUSE = 32
"""Iterations after which a prefill whose first row was late is tried again at the latest."""

_MOST_STEPS = 10**6
"""Most steps of priority that count, up or down. Greater numbers would drown the arrival."""


@dataclass(eq=False)
class SequenceState:
    """A request from `Scheduler.add` to its end. The scheduler alone changes it, its tokens when it
    commits.

    max_len:       tokens, prompt and output, at which it ends
    own_end_ids:   the model's own end tokens, where they end it
    end_ids:       tokens that end it, own_end_ids among them
    adjustment:    what its parameters do to its logits, None for nothing
    layout:        the drafts that it takes; None: all
    slot:          its place in every fixed-address buffer; -1 while it waits
    num_computed:  tokens whose keys are stored or will be by a prefill that is planned; it decodes
                   when these are all
    num_scored:    prompt tokens whose log-probabilities have come, the first one included, which
                   has none
    num_in_flight: iterations that it is in and that are not committed
    has_walk:      its grammar has started in its slot
    is_held_first: it has been held since it began to decode, so that no draft of it is there
    num_late:      times in a row that its prefill was held
    not_before:    iteration of the scheduler before which its prefill is not run again, unless
                   nothing else can run
    epoch:         times that it has lost its slot to another; what an iteration of an earlier epoch
                   says is void
    error:         what it ends with once no iteration with it is under way
    prefix_keys:   of its first pages, as far as anybody has looked for them in the cache
    num_expected:  tokens that its output was expected to have when it came
    is_charged:    its client has paid for its prompt and the output that is expected
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
    num_expected: int = 0
    is_charged: bool = False

    def __post_init__(self) -> None:
        spec = self.request.spec
        self.num_steps = priority_steps(spec.priority)
        self.schedule_key = spec.arrival_s - HEAD_START_S * self.num_steps, spec.request_id
        """Sorts requests: the least is the first to run, and the last to lose its pages."""
        self.request_id = spec.request_id
        self._prompt_len = len(spec.prompt_ids)
        self.client, self._output_ids = spec.client, self.request.output_ids
        self._min_output = spec.params.min_tokens
        self._most_output = self.max_len - self._prompt_len
        self.has_processors = bool(spec.params.logits_processors)
        self._sampling = SamplingValues.of(spec)
        self.num_scored = spec.first_scored

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens."""
        return self._prompt_len + len(self._output_ids)

    @property
    def num_left(self) -> int:
        """Tokens whose keys are not planned yet."""
        return self.num_tokens - self.num_computed

    @property
    def is_at_its_end(self) -> bool:
        """The iterations that are under way are its last. Nobody knows it of one with a grammar,
        whose rows may be late: it would run on where only others are meant to, and without rows."""
        if self.request.params.guide is not None:
            return False
        return self.num_in_flight > 0 and self.num_tokens + self.num_in_flight >= self.max_len

    @property
    def num_unscored(self) -> int:
        """Prompt tokens whose log-probabilities are asked for and not there yet."""
        spec = self.request.spec
        return len(spec.prompt_ids) - self.num_scored if spec.has_prompt_logprobs else 0

    @property
    def num_reusable(self) -> int:
        """Its first tokens whose keys may be those of an earlier request, since nobody wants to
        know what they say."""
        return self.num_scored - 1 if self.num_unscored else self.num_tokens

    def ids_to_score(self, start: int, end: int) -> Sequence[int]:
        """Prompt tokens to score where those from position `start` to before `end` are computed:
        those after each."""
        return self.request.spec.prompt_ids[start + 1 : end + 1] if self.num_unscored else ()

    def tokens(self, start: int, end: int) -> list[int]:
        """Tokens of prompt and output from position `start` to before `end`."""
        prompt_ids, output_ids = self.request.spec.prompt_ids, self.request.output_ids
        first_output = max(0, start - len(prompt_ids))
        return [
            *prompt_ids[start:end],
            *output_ids[first_output : max(0, end - len(prompt_ids))],
        ]

    def entry(self, *, chooses: bool = True) -> SlotEntry:
        """What the step must know of it when it enters its slot.

        chooses: a token is chosen by it; else nothing depends on its tokens, which may be many
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
        )

    def enter_slot(self, slot: int) -> None:
        """Enter a slot, for which the request has waited."""
        self.slot = slot
        waited_s = time.perf_counter() - self.request.arrival_s
        self.request.metrics.queue_s = self.request.metrics.queue_s or waited_s

    def find_keys(self, num_cached: int) -> None:
        """The keys of so many of its first tokens are there."""
        self.num_computed = num_cached
        if not self.request.output_ids:
            self.request.metrics.num_cached = num_cached

    def next_chunk(self, end: int) -> Chunk:
        """Its tokens from the first whose keys are not planned yet to before position `end`; they
        are planned now."""
        start, self.num_computed = self.num_computed, end
        is_last = end == self.num_tokens
        tokens = self.tokens(start, end + 1)
        return Chunk(
            tokens[: end - start],
            start,
            None if is_last else tokens[-1],
            is_last and self._starts_walk(),
            self.ids_to_score(start, end),
            self.request.spec.score_temperature,
        )

    def start(self, row: int) -> Start:
        """The request decodes from an iteration on, in which it has place `row`."""
        num_before = self.num_tokens - 1
        last_id = self.tokens(num_before, self.num_tokens)[0]
        return Start(row, self.entry(), last_id, num_before, self._starts_walk())

    def take(self, tokens: Sequence[int]) -> tuple[int, FinishReason | None]:
        """More tokens of output: how many of them count, and why it ends with the last of these, if
        it does."""
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
        """The log-probabilities of the prompt tokens behind a chunk's are there, whatever has
        become of its slot meanwhile."""
        if chunk.start + 1 <= self.num_scored:
            self.num_scored = max(self.num_scored, chunk.start + 1 + len(chunk.scored_ids))

    def hold_prefill(self, num_planned: int) -> None:
        """Its last token is computed again, for what follows; the later, the longer its row takes.

        num_planned: iterations of the scheduler so far
        """
        self.num_computed = self.num_tokens - 1
        self.num_late += 1
        self.not_before = num_planned + min(2**self.num_late, _LONGEST_PAUSE)

    def lose_slot(self) -> None:
        """The request waits again, and another matcher will begin."""
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
        """Whether its grammar is yet to start in its slot; from now on it has."""
        starts_walk = not self.has_walk
        self.has_walk = True
        return starts_walk

    def _ending(self, token: int) -> FinishReason:
        """Why it ends with its last token. The text may know of a stop string only at its end."""
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
    """A priority's steps, as many as count."""
    return max(-_MOST_STEPS, min(priority, _MOST_STEPS))


def finish(request: Request, reason: FinishReason, error: SpecguideError | None = None) -> None:
    """Write how a request has ended, and what it cost."""
    request.finish_reason = reason
    request.error = error
    request.text.end()
    request.metrics.output_tokens = len(request.output_ids)
    request.metrics.total_s = time.perf_counter() - request.arrival_s
