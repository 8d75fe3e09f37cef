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

    prompt_tokens, output_tokens: tokens of its prompt, and those that it was given
    time_to_first_token_s, total_s: from arrival to first token, and to the end
    queue_s:            from arrival to first iteration, the compile of the grammar included
    num_iterations:     verifications that counted for it, the prefill not included
    num_held:           iterations in which it was held because its rows were late
    num_cached:         prompt tokens whose keys the prefix cache had
    num_preemptions:    times that it lost its pages to another request and had to compute its keys
                        again
    compile_s:          wait for its compiled grammar
    is_compile_cached:  its compiled grammar was in the cache
    accepted_histogram: entry a counts the iterations that gained a + 1 tokens: a accepted drafts
                        and the golden token, or a + 1 drafts of which the last ended the output
    drafts_proposed, drafts_accepted: how many drafts were verified (all nodes of a tree), and how
                        many of them were accepted (one that ended the output included), each by who
                        proposed them, as in batch.DRAFT_ORIGINS
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

    rank: the token's rank among all tokens, 1 is the likeliest; equally likely tokens all have the
          rank of the last of them
    """

    logprob: float
    rank: int


class OutputSpan(NamedTuple):
    """A run of an output's tokens, by the structure that its guide fixes.

    tag:     "reasoning", "content", or "tool": a tool call, or a tag of a structural tag
    role:    "value": a string with its quotes, a number, true, false or null; "key": an object's
             key with its quotes; "name": a tool's name; "text": free text; "punctuation": all else,
             format markers included
    path:    JSON pointer (RFC 6901) of the value, of the property that the key names, or of the
             array or object that the punctuation is part of; None outside JSON
    tool:    the tool's name, or the text with which a tag begins; None outside of calls and tags,
             and where a call was cut off before its name
    call:    index of the call or tag in the output, from 0; None outside
    start, end: its tokens are output_ids[start:end]; its first and its last token may be part of
             the neighbouring spans, too
    logprob: sum of the log-probabilities of these tokens; None where they were not asked for
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
    """When an iteration of a whole batch ran, as the host saw it. Seconds; begin_s and end_s are
    points of `time.perf_counter`.

    begin_s:           when the host launched it
    wait_s:            how long the host waited for its results after that
    end_s:             when the host had its results
    grammar_s:         time that its callbacks took on the grammar stream; None on a GPU, where only
                       a timeline shows it
    grammar_exposed_s: the part of grammar_s that the forward stream waited for; the rest was
                       hidden. None on a GPU
    """

    begin_s: float
    wait_s: float
    end_s: float
    grammar_s: float | None = None
    grammar_exposed_s: float | None = None


@dataclass(frozen=True)
class Iteration:
    """What one iteration did for a request.

    drafts:       token ids that were proposed and verified, up to the first node without a draft;
                  for a tree those on the accepted path; empty in a prefill
    num_accepted: how many of them, from the first on, the target chose as well
    tokens:       the tokens that the request gained: accepted drafts, then the golden token, cut
                  where the request ended; empty where it was held: the same drafts are verified
                  again
    is_prefill:   the iteration computed keys of the prompt
    """

    drafts: tuple[int, ...]
    num_accepted: int
    tokens: tuple[int, ...]
    is_prefill: bool
    times: IterationTimes

    @property
    def is_held(self) -> bool:
        """Whether the request was held, because its rows were late."""
        return not self.tokens


def own_logprobs(token_ids: Iterable[int], entries: Iterable[Mapping[int, Logprob]]) -> list[float]:
    """The log-probability of each token, taken from entries as in RequestOutput.logprobs; empty
    where there are no entries."""
    return [entry[token].logprob for token, entry in zip(token_ids, entries, strict=False)]
