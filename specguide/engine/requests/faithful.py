"""Owns requests that are drawn from all that their guide admits: what of the model they are drawn
by is scored in requests of its own, which nobody but this room sees.

Masking token by token gives a text the product of p(token | beginning) / p(what may follow), which
is not its share of what the model gives all admitted texts together (Lew et al. 2023, "Sequential
Monte Carlo Steering"; Park et al. 2024, "Grammar-Aligned Decoding"). With S the admitted token
sequences, each with its end token, and p_T the softmax of logits / temperature over all tokens,

    P(s) = Π_i p_T(s_i | prompt, s_<i) / Σ_{r in S} Π_i p_T(r_i | prompt, r_<i).

A temperature of 0 gives the sequence of the greatest product at temperature 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specguide.errors import InvalidParams, SpecguideError
from specguide.guided.finite import FiniteGrammar
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.request_records import Logprob

Entry = Mapping[int, Logprob]
"""Log-probabilities at one place of an output, as in RequestOutput.logprobs."""


@dataclass(eq=False)
class ScoredSequences:
    """Sequences and what the model says of each of their tokens.

    sequences: as in FiniteGrammar
    entries:   by temperature, of each sequence those of the tokens behind what it has in common
               with the one before
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
        """The probability of each sequence, given that it is one of them. Raises InvalidParams
        where the model's scores tell none."""
        logprobs = self.logprobs(temperature)
        greatest = max(logprobs)
        if any(map(math.isnan, logprobs)) or greatest == -math.inf:
            raise InvalidParams(
                "the model gives no admitted output a probability that can be told at temperature "
                f"{temperature:g}: raise it, or leave faithful out",
                param="temperature",
            )
        shares = [math.exp(one - greatest) for one in logprobs]
        total = math.fsum(shares)
        return [share / total for share in shares]

    def draw(self, temperature: float, seed: int) -> int:
        """Place of one of them, the likeliest at temperature 0."""
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
    """Tokens that a sequence begins with as the one before it does."""
    if index == 0:
        return 0
    before, own = sequences[index - 1], sequences[index]
    pairs = enumerate(zip(before, own, strict=False))
    return next(place for place, (one, other) in pairs if one != other)


@dataclass(eq=False)
class _Job:
    """Sequences that are being scored behind a prompt, for the samples that are drawn from them.

    asked:    what is yet to be scored, next one last: sequence and temperature
    active:   the requests that score, by id, and what each does
    num_done: requests that have scored
    """

    scored: ScoredSequences
    samples: list[Request]
    asked: list[tuple[int, float]]
    active: dict[int, tuple[Request, int, float]] = field(default_factory=dict)
    num_done: int = 0

    @classmethod
    def of(cls, sample: Request, grammar: FiniteGrammar) -> _Job:
        """Nothing is scored yet."""
        params, sequences = sample.params, grammar.sequences
        temperatures = {params.temperature or 1.0, *([] if params.logprobs is None else [1.0])}
        asked = [(index, one) for one in temperatures for index in range(len(sequences))]
        entries: dict[float, list[list[Entry]]] = {
            one: [[] for _ in sequences] for one in temperatures
        }
        return cls(ScoredSequences(sequences, entries), [sample], asked[::-1])

    def first_scored(self, index: int) -> int:
        """Place in prompt and sequence of the first token of the sequence that is scored."""
        return len(self.samples[0].prompt_ids) + num_common(self.scored.sequences, index)

    def request(self, request_id: int, index: int, temperature: float) -> Request:
        """A request that scores a sequence, as a prompt."""
        spec = self.samples[0].spec
        first = self.first_scored(index)
        num_top = spec.params.logprobs or 0
        asked = RequestSpec(
            request_id,
            (*spec.prompt_ids, *self.scored.sequences[index]),
            SamplingParams(max_tokens=1, ignore_eos=True, prompt_logprobs=num_top),
            priority=spec.priority,
            arrival_s=spec.arrival_s,
            client=spec.client,
            first_scored=first,
            score_temperature=temperature,
        )
        return Request(asked, prompt_logprobs=[None] * first)


class Caller(Protocol):
    """What `Faithful` asks of its caller, who has samples drawn."""

    def next_id(self) -> int:
        """The id of a request that scores."""

    def start(self, request: Request) -> None:
        """Have one that scores run. Raises SpecguideError."""

    def stop(self, request: Request) -> None:
        """Stop a request that scores for nobody any more."""

    def answer(self, sample: Request, token_ids: Sequence[int], entries: list[Entry]) -> None:
        """A sample is drawn. entries: of its tokens; none where they are not asked for"""

    def end(self, sample: Request, error: SpecguideError | None = None) -> None:
        """A sample cannot be drawn: `error` says why; None: it is aborted."""


class Faithful:
    """Scores and draws. Touched by the engine's thread alone."""

    def __init__(self, caller: Caller, max_active: int) -> None:
        """max_active: requests that score for one prompt at a time, so that others go on"""
        self._caller, self._max_active = caller, max_active
        self._jobs: dict[Hashable, _Job] = {}
        self._keys: dict[int, Hashable] = {}

    @property
    def samples(self) -> list[Request]:
        """Samples that wait for their scores."""
        return [sample for job in self._jobs.values() for sample in job.samples]

    def add(self, sample: Request, grammar: FiniteGrammar) -> None:
        """Add one more sample to draw. Samples of one prompt share what is scored."""
        params = sample.params
        key = sample.prompt_ids, grammar, params.temperature, params.logprobs
        if key in self._jobs:
            self._jobs[key].samples.append(sample)
        else:
            self._jobs[key] = _Job.of(sample, grammar)
            self._go_on(key)

    def take(self, request: Request) -> bool:
        """A request has ended. Whether it was one that scores, which nobody else is told of."""
        key = self._keys.pop(request.request_id, None)
        if key is None:
            return False
        job = self._jobs.get(key)
        if job is None:  # another one of it has failed in the same iteration
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
        """Forget a request that has ended otherwise, whether it was here or not."""
        for key, job in list(self._jobs.items()):
            if sample in job.samples:
                job.samples.remove(sample)
                if not job.samples:
                    self._forget(key)

    def _go_on(self, key: Hashable) -> None:
        """The first one computes the keys of the prompt, and the others find them."""
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
            if request.finish_reason is None:  # else it is yet to be taken
                del self._keys[request.request_id]
                self._caller.stop(request)
        return job
