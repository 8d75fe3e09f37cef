"""Owns faithful requests: their output is drawn from all outputs that the guide allows, by the
model's probability of the whole output. Further requests, hidden from callers, score these outputs.

Masking token by token gives a text the probability Π p(token | beginning) / p(all allowed tokens |
beginning). That is not the model's probability of the text, given that the text is an allowed one
(Lew et al. 2023, "Sequential Monte Carlo Steering"; Park et al. 2024, "Grammar-Aligned Decoding").
With S the admitted token sequences, each with its end token, and p_T the softmax of logits /
temperature over all tokens, faithful requests draw s from S with probability

    P(s) = Π_i p_T(s_i | prompt, s_<i) / Σ_{r in S} Π_i p_T(r_i | prompt, r_<i).

A temperature of 0 gives the sequence with the greatest product at temperature 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specguide.errors import InvalidParams, SpecguideError
from specguide.guided.finite import FiniteGrammar
from specguide.images import PromptIds
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.request_records import Logprob

Entry = Mapping[int, Logprob]
"""Log-probabilities at one position of an output, as in RequestOutput.logprobs."""


@dataclass(eq=False)
class ScoredSequences:
    """Sequences, and the model's log-probabilities of their tokens.

    sequences: as in FiniteGrammar
    entries:   by temperature and sequence: the entries of its tokens after the prefix that it
               shares with the sequence before it
    """

    sequences: Sequence[tuple[int, ...]]
    entries: dict[float, list[list[Entry]]]

    def logprobs(self, temperature: float) -> list[float]:
        """The log-probability of each sequence: the sum over its tokens."""
        totals, on_path = [], [0.0]
        for index, sequence in enumerate(self.sequences):
            first = num_common(self.sequences, index)
            del on_path[first + 1 :]
            new = zip(sequence[first:], self.entries[temperature][index], strict=True)
            for token, entry in new:
                on_path.append(on_path[-1] + entry[token].logprob)
            totals.append(on_path[-1])
        return totals

    def probabilities(self, temperature: float) -> list[float]:
        """The probability of each sequence, given that the output is one of them. Raises
        InvalidParams where the model's scores do not give any."""
        logprobs = self.logprobs(temperature)
        greatest = max(logprobs)
        if any(map(math.isnan, logprobs)) or greatest == -math.inf:
            raise InvalidParams(
                f"at temperature {temperature:g} the outputs that the guide allows have "
                "probabilities of 0 or NaN: raise temperature, or leave faithful out",
                param="temperature",
            )
        shares = [math.exp(one - greatest) for one in logprobs]
        total = math.fsum(shares)
        return [share / total for share in shares]

    def draw(self, temperature: float, seed: int) -> int:
        """Draw the index of a sequence; the likeliest one at temperature 0."""
        if temperature == 0:
            shares = self.probabilities(1.0)
            return shares.index(max(shares))
        shares = self.probabilities(temperature)
        return random.Random(seed).choices(range(len(shares)), shares)[0]

    def path_entries(self, index: int) -> list[Entry]:
        """The entries of all tokens of a sequence, at temperature 1."""
        needed, found = len(self.sequences[index]), list[Entry]()
        while needed:
            first = num_common(self.sequences, index)
            if first < needed:
                found = self.entries[1.0][index][: needed - first] + found
                needed = first
            index -= 1
        return found


def num_common(sequences: Sequence[tuple[int, ...]], index: int) -> int:
    """Number of tokens in the prefix that a sequence shares with the one before it."""
    if index == 0:
        return 0
    before, own = sequences[index - 1], sequences[index]
    pairs = enumerate(zip(before, own, strict=False))
    return next(place for place, (one, other) in pairs if one != other)


@dataclass(eq=False)
class _Job:
    """Sequences that are being scored behind a prompt, for the samples to draw from them.

    asked:    sequence index and temperature of the scorings that were not started, the next last
    active:   by id, the requests that score, each with its sequence index and temperature
    num_done: number of requests that have scored
    """

    scored: ScoredSequences
    samples: list[Request]
    asked: list[tuple[int, float]]
    active: dict[int, tuple[Request, int, float]] = field(default_factory=dict)
    num_done: int = 0

    @classmethod
    def of(cls, sample: Request, grammar: FiniteGrammar) -> _Job:
        """A new job for one sample; nothing is scored yet."""
        params, sequences = sample.params, grammar.sequences
        temperatures = {params.temperature or 1.0, *([] if params.logprobs is None else [1.0])}
        asked = [(index, one) for one in temperatures for index in range(len(sequences))]
        entries: dict[float, list[list[Entry]]] = {
            one: [[] for _ in sequences] for one in temperatures
        }
        return cls(ScoredSequences(sequences, entries), [sample], asked[::-1])

    def first_scored(self, index: int) -> int:
        """Position of the first token of a sequence that is scored, counted from the prompt's
        begin."""
        return len(self.samples[0].prompt_ids) + num_common(self.scored.sequences, index)

    def request(self, request_id: int, index: int, temperature: float) -> Request:
        """A request that scores a sequence as a part of its prompt."""
        spec = self.samples[0].spec
        first = self.first_scored(index)
        num_top = spec.params.logprobs or 0
        asked = RequestSpec(
            request_id,
            PromptIds((*spec.prompt_ids, *self.scored.sequences[index]), spec.images),
            SamplingParams(max_tokens=1, ignore_eos=True, prompt_logprobs=num_top),
            priority=spec.priority,
            arrival_s=spec.arrival_s,
            client=spec.client,
            first_scored=first,
            score_temperature=temperature,
            adapter=spec.adapter,
        )
        return Request(asked, prompt_logprobs=[None] * first)


class Caller(Protocol):
    """The functions that `Faithful` needs of its caller."""

    def next_id(self) -> int:
        """The id for a new request that scores."""

    def start(self, request: Request) -> None:
        """Run a request that scores. Raises SpecguideError."""

    def stop(self, request: Request) -> None:
        """Stop a request whose scores nobody needs any more."""

    def answer(self, sample: Request, token_ids: Sequence[int], entries: list[Entry]) -> None:
        """End a sample with the tokens that were drawn for it. entries: their log-probabilities;
        empty where they are not asked for"""

    def end(self, sample: Request, error: SpecguideError | None = None) -> None:
        """End a sample that cannot be drawn, with `error`; None: as aborted."""


class Faithful:
    """Has sequences scored, and draws samples from them. Only the engine's thread uses it."""

    def __init__(self, caller: Caller, max_active: int) -> None:
        """max_active: most requests that score for one prompt at a time, so that others go on"""
        self._caller, self._max_active = caller, max_active
        self._jobs: dict[Hashable, _Job] = {}
        self._keys: dict[int, Hashable] = {}

    @property
    def samples(self) -> list[Request]:
        """Samples that wait for their scores."""
        return [sample for job in self._jobs.values() for sample in job.samples]

    def add(self, sample: Request, grammar: FiniteGrammar) -> None:
        """Add a sample to draw. Samples of one prompt share the scores."""
        params = sample.params
        key = sample.prompt_ids, grammar, params.temperature, params.logprobs
        if key in self._jobs:
            self._jobs[key].samples.append(sample)
        else:
            self._jobs[key] = _Job.of(sample, grammar)
            self._go_on(key)

    def take(self, request: Request) -> bool:
        """Take a request that has ended, if it is one that scores. Returns whether it was; callers
        never see such a request."""
        key = self._keys.pop(request.request_id, None)
        if key is None:
            return False
        job = self._jobs.get(key)
        if job is None:  # another request of the job has failed in the same iteration
            return True
        _, index, temperature = job.active.pop(request.request_id)
        if request.finish_reason != "length":
            self._fail(key, request.error)
            return True
        scores = request.prompt_logprobs[job.first_scored(index) :]
        job.scored.entries[temperature][index] = [entry for entry in scores if entry is not None]
        job.num_done += 1
        if job.asked or job.active:
            self._go_on(key)
        else:
            self._draw(key)
        return True

    def discard(self, sample: Request) -> None:
        """Forget a sample that has ended for another reason, if it is here."""
        for key, job in list(self._jobs.items()):
            if sample in job.samples:
                job.samples.remove(sample)
                if not job.samples:
                    self._forget(key)

    def _go_on(self, key: Hashable) -> None:
        """Start more requests that score. The first one runs alone: it computes the keys of the
        prompt, and the others find them in the prefix cache."""
        job = self._jobs[key]
        most = self._max_active if job.num_done else 1
        while job.asked and len(job.active) < most:
            index, temperature = job.asked.pop()
            request = job.request(self._caller.next_id(), index, temperature)
            job.active[request.request_id] = request, index, temperature
            self._keys[request.request_id] = key
            try:
                self._caller.start(request)
            except SpecguideError as error:
                self._fail(key, error)
                return

    def _draw(self, key: Hashable) -> None:
        job = self._forget(key)
        for sample in job.samples:
            params = sample.params
            try:
                index = job.scored.draw(params.temperature, sample.spec.seed)
            except InvalidParams as error:
                self._caller.end(sample, error)
                continue
            entries = [] if params.logprobs is None else job.scored.path_entries(index)
            self._caller.answer(sample, job.scored.sequences[index], entries)

    def _fail(self, key: Hashable, error: SpecguideError | None) -> None:
        for sample in self._forget(key).samples:
            self._caller.end(sample, error)

    def _forget(self, key: Hashable) -> _Job:
        job = self._jobs.pop(key)
        for request, _, _ in job.active.values():
            if request.finish_reason is None:  # else `take` will get it
                del self._keys[request.request_id]
                self._caller.stop(request)
        return job
