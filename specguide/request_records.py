"""Owns what is recorded of a request as it runs: what it cost, its log-probabilities, spans and
iterations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

SpanTag = Literal["reasoning", "content", "tool"]
SpanRole = Literal["text", "name", "key", "value", "punctuation"]


@dataclass
class RequestMetrics:
    """What one request cost. Times in seconds.

    queue_s:            from its arrival to its first iteration, the compile of its grammar included
    num_iterations:     verifications that counted for it, the prefill not included
    num_held:           iterations in which it was held because its rows were late
    num_cached:         prompt tokens whose keys were there already
    num_preemptions:    times that it lost its pages to another request and had to start its keys
                        anew
    compile_s:          from when its grammar was asked for to when it was there
    is_compile_cached:  its grammar was there when it was asked for
    accepted_histogram: entry a counts the iterations that gained a + 1 tokens: a accepted drafts
                        and the golden token, or a + 1 drafts of which the last ended the output
    drafts_proposed, drafts_accepted: by batch.DRAFT_ORIGINS, who proposed how many drafts that were
                        verified, all nodes of a tree, and how many of them were taken, one that
                        ended the output included
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    num_iterations: int = 0
    num_held: int = 0
    num_cached: int = 0
    num_preemptions: int = 0
    accepted_histogram: list[int] = field(default_factory=list)
    drafts_proposed: dict[str, int] = field(default_factory=dict)
    drafts_accepted: dict[str, int] = field(default_factory=dict)
    compile_s: float = 0.0
    is_compile_cached: bool = False
    time_to_first_token_s: float = 0.0
    total_s: float = 0.0
    queue_s: float = 0.0

    @property
    def num_gained(self) -> int:
        """Tokens that its iterations gained, golden tokens included."""
        return sum(place * count for place, count in enumerate(self.accepted_histogram, start=1))

    @property
    def acceptance_length(self) -> float:
        """Mean tokens gained per iteration, the golden token included; 0 before the first
        iteration."""
        return self.num_gained / self.num_iterations if self.num_iterations else 0.0

    @property
    def tpot_s(self) -> float:
        """Mean time per output token after the first; 0 where there is none."""
        num_later = self.output_tokens - 1
        return (self.total_s - self.time_to_first_token_s) / num_later if num_later > 0 else 0.0


class Logprob(NamedTuple):
    """A token's log-probability, by the model's own logits.

    rank: its place among all tokens, 1 is the likeliest; of equals all have the place of the last
    """

    logprob: float
    rank: int


class OutputSpan(NamedTuple):
    """A run of an output's tokens, by the structure that its guide fixes.

    tag:     "reasoning", "content", or "tool": a call of one, or a tag of a structural tag
    role:    "value": a string with its quotes, a number, true, false or null; "key": of an object,
             with its quotes; "name": of the tool; "text": free; "punctuation": all else, marks
             included
    path:    JSON pointer (RFC 6901) of the value, of the property that a key names, or of what the
             punctuation is of; None outside JSON
    tool:    its name, or the text with which a tag begins; None outside, and where a call was cut
             off before its name
    call:    which of the output's calls or tags it is, from 0; None outside
    start, end: its tokens, output_ids[start:end]; the first and the last of them may lie in others
             too
    logprob: sum of the log-probabilities of all of these; None where they were not asked for
    """

    tag: SpanTag
    role: SpanRole
    path: str | None
    tool: str | None
    call: int | None
    start: int
    end: int
    logprob: float | None = None


@dataclass(frozen=True)
class IterationTimes:
    """When an iteration of a whole batch ran, as the host saw it. Seconds, begin and end of
    `time.perf_counter`.

    begin_s:           the host launched it
    wait_s:            of the time since then, what the host waited for its results
    end_s:             the host had its results
    grammar_s:         time that its callbacks took on the grammar stream; None on a GPU, where only
                       a timeline tells
    grammar_exposed_s: of it, what the forward stream waited for; the rest was hidden. None likewise
    """

    begin_s: float
    wait_s: float
    end_s: float
    grammar_s: float | None = None
    grammar_exposed_s: float | None = None


@dataclass(frozen=True)
class Iteration:
    """What one iteration gave a request.

    drafts:       token ids that were proposed and verified, up to the first place without one, of
                  a tree those on the path that was accepted; none in a prefill
    num_accepted: of them, the first ones that the target said too
    tokens:       that it was given: the accepted drafts, then the golden token, as far as it went
                  on; none where it was held, and the same drafts are verified again
    is_prefill:   it computed the keys of the prompt
    """

    drafts: tuple[int, ...]
    num_accepted: int
    tokens: tuple[int, ...]
    is_prefill: bool
    times: IterationTimes

    @property
    def is_held(self) -> bool:
        """Its rows were late."""
        return not self.tokens


def own_logprobs(token_ids: Iterable[int], entries: Iterable[Mapping[int, Logprob]]) -> list[float]:
    """The log-probability of each token, of entries as RequestOutput has them; none where there are
    no entries."""
    return [entry[token].logprob for token, entry in zip(token_ids, entries, strict=False)]
