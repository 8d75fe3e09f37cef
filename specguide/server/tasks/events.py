"""Owns the events of a task that runs. Each is of a type of its own: `run` makes them, and
renderers tell them."""

from __future__ import annotations

import msgspec

from specguide.request import FinishReason
from specguide.request_records import OutputSpan, RequestMetrics


class Score(msgspec.Struct, frozen=True):
    """A token and how likely it was, by the model's own logits.

    spelled: what it adds to a text, its leading space included; the name of a special token
    logprob: None for a prompt's first token, before which there is nothing
    rank:    its place among all tokens, 1 is the likeliest; 0 where there is no logprob
    rivals:  the likeliest tokens of its place, likeliest first, as many as were asked for
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
        """`spelled`; bytes that are no text are replaced."""
        return self.spelled.decode(errors="replace")

    def name(self, *, as_id: bool) -> str:
        """The text, or in its place the id, as vLLM writes that."""
        return f"token_id:{self.token_id}" if as_id else self.text


class PromptScores(msgspec.Struct, frozen=True):
    """The prompt of a sample, token by token: of a prompt's first sample the first event, where
    they are asked for."""

    scores: tuple[Score, ...]
    sample: int = 0


class Spans(msgspec.Struct, frozen=True):
    """What tokens of a sample are of, where that is asked for; each span once, when it is over."""

    spans: tuple[OutputSpan, ...]
    sample: int = 0


class Tokens(msgspec.Struct, frozen=True):
    """A sample got so many more tokens. What they add to it follows, now or later.

    num_reasoning: so many more of its tokens, earlier ones among them, are of its reasoning
    token_ids:     theirs
    """

    count: int
    sample: int = 0
    num_reasoning: int = 0
    token_ids: tuple[int, ...] = ()


class Text(msgspec.Struct, frozen=True):
    """More text that is no call; it may be empty where there are scores.

    scores: of the tokens that it is from, where they are asked for; as those of the other events
    """

    text: str
    sample: int = 0
    scores: tuple[Score, ...] = ()


class Reasoned(msgspec.Struct, frozen=True):
    """More of what the model thinks before it answers."""

    text: str
    sample: int = 0
    scores: tuple[Score, ...] = ()


class CallBegin(msgspec.Struct, frozen=True):
    """A call, whose arguments follow.

    index: which of the sample's
    kind:  "function", or "custom" of a custom tool: what follows is its text, and no JSON
    """

    index: int
    name: str
    sample: int = 0
    scores: tuple[Score, ...] = ()
    kind: str = "function"


class Arguments(msgspec.Struct, frozen=True):
    """More of a call's arguments, which are JSON, or of its text."""

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
"""What a sample says."""

Event = PromptScores | Tokens | Spans | Said | End
