"""Owns the error tree: everything specguide raises on purpose.

SpecguideError
├── UserError                      what a caller can correct; an API server answers 400
│   ├── InvalidParams              a parameter, option or prompt is wrong or cannot be honoured
│   │   ├── PromptTooLong          the prompt does not fit the context
│   │   └── OutputTooLong          no output of a guide is as short as max_tokens asks
│   ├── InvalidGuide               a guide is contradictory, unreadable or malformed
│   │   ├── UnsupportedGuide       no backend enforces it; names keyword and path
│   │   └── GuideLimitExceeded     it ran into a limit of size, depth or compile time
│   └── CheckpointError            a model folder is unreadable, unknown, or its weights do not fit
├── RequestError                   one request failed while it ran; its neighbours go on
│   ├── NothingLeft                its own parameters forbid all that could follow; answered 400
│   ├── MatcherError               its grammar failed, refused what it allowed, or allows nothing
│   └── RequestTimeout             it had not ended by its deadline
├── QueueFull                      too many requests are under way; an API server answers 429
├── CompilerBusy                   too many grammars wait; nothing is wrong with this one; 503
└── EngineError                    the engine itself failed; every request in flight ends
    └── EngineClosed               it takes no requests any more, since it is being closed
"""

from __future__ import annotations


class SpecguideError(Exception):
    """Root of the tree."""


class UserError(SpecguideError):
    """Something the caller can correct. param: name of the offending parameter, if there is one"""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class InvalidParams(UserError):
    """A sampling parameter, an option or a prompt is wrong or cannot be honoured."""


class PromptTooLong(InvalidParams):
    """The prompt leaves too little room in the model's context."""


class OutputTooLong(InvalidParams):
    """No output of a guide is as short as `max_tokens` asks.

    `num_needed` is the number of tokens of the shortest output.
    """

    def __init__(self, message: str, *, num_needed: int = 0, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.num_needed = num_needed


class InvalidGuide(UserError):
    """A guide is contradictory, unreadable or malformed.

    `part` is the index of the JSON Schema in question, from 0, where the guide is a grammar that
    contains JSON Schemas; else None.
    """

    part: int | None = None


class UnsupportedGuide(InvalidGuide):
    """No installed backend enforces the guide.

    `keyword` is the offending JSON Schema keyword and `path` its JSON pointer, where the guide is a
    schema.
    """

    def __init__(
        self, message: str, *, keyword: str | None = None, path: str | None = None
    ) -> None:
        super().__init__(message)
        self.keyword = keyword
        self.path = path


class GuideLimitExceeded(InvalidGuide):
    """A guide ran into a limit of size, depth or compile time; `limit` names the configuration
    field."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class CheckpointError(UserError):
    """A model folder is unreadable, its architecture unknown, or its weights do not fit its
    configuration."""


class RequestError(SpecguideError):
    """One request failed while it ran."""


class NothingLeft(RequestError):
    """A request's parameters forbid every token that could follow. `param` names one of them."""

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


class MatcherError(RequestError):
    """A request's grammar state failed, refused a token it had allowed, or reached a state that
    allows nothing."""


class RequestTimeout(RequestError):
    """A request had not ended when its `timeout_s` was over.

    waited_s: seconds from its arrival to its first iteration, or to now if there was none
    ran_s:    seconds since its first iteration
    """

    def __init__(self, message: str, *, waited_s: float, ran_s: float) -> None:
        super().__init__(message)
        self.waited_s = waited_s
        self.ran_s = ran_s


class QueueFull(SpecguideError):
    """Too many requests are under way to take another.

    retry_after_s: seconds after which there may be room; None: unknown
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class CompilerBusy(SpecguideError):
    """Too many grammars wait to be compiled; the same request may succeed later."""


class EngineError(SpecguideError):
    """The engine failed as a whole."""


class EngineClosed(EngineError):
    """The engine is being closed, or is closed, and takes no more requests."""
