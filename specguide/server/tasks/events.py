"""Owns the events of a task that runs, each of its own type: `run` makes them, and renderers write
them."""

from __future__ import annotations

import msgspec

from specguide.request import FinishReason
from specguide.request_records import OutputSpan, RequestMetrics


class Score(msgspec.Struct, frozen=True):
    """A token and its probability, by the model's own logits.

    spelled: its text, including its leading space; the name of a special token
    logprob: None for a prompt's first token, which has no tokens before it
    rank:    its place among all tokens, 1 is the likeliest; 0 where there is no logprob
    rivals:  the likeliest tokens at the same position, likeliest first, as many as were asked for
    is_special: `spelled` is a name, and the token adds nothing to a text
    """

    token_id: int
    spelled: bytes
    logprob: float | None
    rank: int
    rivals: tuple[Score, ...] = ()
    is_special: bool = False

    @property
    def text(self) -> str:
        """`spelled`; invalid UTF-8 is replaced."""
        return self.spelled.decode(errors="replace")

    def name(self, *, as_id: bool) -> str:
        """The text, or the id in vLLM's form."""
        return f"token_id:{self.token_id}" if as_id else self.text


class PromptScores(msgspec.Struct, frozen=True):
    """The scores of a prompt's tokens: the first event of the prompt's first sample, where they are
    asked for."""

    scores: tuple[Score, ...]
    sample: int = 0


class Spans(msgspec.Struct, frozen=True):
    """The parts of the output to which a sample's tokens belong, where that is asked for; each span
    comes once, at its end."""

    spans: tuple[OutputSpan, ...]
    sample: int = 0


class Tokens(msgspec.Struct, frozen=True):
    """A sample got `count` more tokens. The text that they add follows, now or later.

    num_reasoning: this many more of its tokens, possibly earlier ones, are reasoning
    token_ids:     ids of the new tokens
    """

    count: int
    sample: int = 0
    num_reasoning: int = 0
    token_ids: tuple[int, ...] = ()


class Text(msgspec.Struct, frozen=True):
    """More text outside of calls; it may be empty where there are scores.

    scores: of the text's tokens, where they are asked for; the same in the other events
    """

    text: str
    sample: int = 0
    scores: tuple[Score, ...] = ()


class Reasoned(msgspec.Struct, frozen=True):
    """More of the model's reasoning."""

    text: str
    sample: int = 0
    scores: tuple[Score, ...] = ()


class CallBegin(msgspec.Struct, frozen=True):
    """A call, whose arguments follow.

    index: its index among the sample's calls
    kind:  "function"; or "custom", a custom tool's, which is followed by its text instead of JSON
    """

    index: int
    name: str
    sample: int = 0
    scores: tuple[Score, ...] = ()
    kind: str = "function"


class Arguments(msgspec.Struct, frozen=True):
    """More of a call's arguments, which are JSON, or of a custom tool's text."""

    index: int
    text: str
    sample: int = 0
    scores: tuple[Score, ...] = ()


class End(msgspec.Struct, frozen=True):
    """A sample's last event.

    stop_reason: the stop string or stop token id that ended it; None for the model's own end
    """

    finish_reason: FinishReason
    stop_reason: str | int | None = None
    sample: int = 0
    metrics: RequestMetrics = msgspec.field(default_factory=RequestMetrics)


Said = Reasoned | Text | CallBegin | Arguments
"""Events with a sample's output."""

Event = PromptScores | Tokens | Spans | Said | End
