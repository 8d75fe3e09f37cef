"""Owns the budget of steps for the work on one guide: a guide that takes too many steps is refused.

Guides are read and rewritten in Python, which holds the GIL, and a small schema can cause endless
work. So every loop over what a user wrote, or over what was made of it, calls `spend`. A step takes
about a microsecond. Outside of a budget no steps are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import unwrap
from typing import Any, ParamSpec, TypeVar

from specguide.errors import GuideLimitExceeded, UnsupportedGuide

_MAX_PATH = 200

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")
_Thing = TypeVar("_Thing")


class Budget:
    """The steps that the work on one guide may take, summed over all backends that are tried.

    left: steps that may still be taken; negative when the budget is spent
    """

    def __init__(self, most: int) -> None:
        self.left = most
        self._most = most
        self._kept: dict[Hashable, Any] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """A context in which steps are counted. Raises GuideLimitExceeded, which names
        `max_schema_steps` and the keyword at work, when too many are taken."""
        token = _current.set(self)
        try:
            yield
        except _OutOfSteps as end:
            raise GuideLimitExceeded(
                f"{end.what} takes more than max_schema_steps ({self._most}) steps to rewrite; "
                "make it smaller or simpler, or raise the limit",
                limit="max_schema_steps",
            ) from None
        finally:
            _current.reset(token)

    def keep(self, key: Hashable, make: Callable[[], _Result]) -> _Result:
        """The result of the first call with this key, which called `make`."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def took_most(self, left_before: int) -> bool:
        """Whether the work since `left_before` took at least half of all steps."""
        return 2 * (left_before - self.left) >= self._most


@contextmanager
def at_most(num_steps: int) -> Iterator[None]:
    """A context for a trial that may take `num_steps` of the budget. Raises UnsupportedGuide when
    it takes more."""
    budget = _current.get()
    reserve = 0 if budget is None else max(0, budget.left - num_steps)
    if budget is None or not reserve:
        yield
        return
    budget.left -= reserve
    try:
        yield
    except _OutOfSteps:
        raise UnsupportedGuide(f"it takes more than {num_steps} steps") from None
    finally:
        budget.left = max(0, budget.left) + reserve


@contextmanager
def beside(num_steps: int) -> Iterator[None]:
    """A context for a trial with `num_steps` of its own, which do not count in the budget. Raises
    UnsupportedGuide when it takes more."""
    budget = _current.get()
    left = 0 if budget is None else budget.left
    if budget is not None:
        budget.left = num_steps
    try:
        yield
    except _OutOfSteps:
        raise UnsupportedGuide(f"it takes more than {num_steps} steps") from None
    finally:
        if budget is not None:
            budget.left = left


class _OutOfSteps(Exception):
    """Raised when a budget is spent. It is not an InvalidGuide, so that no handler takes it for a
    fact about a part of the guide.

    what: what took at least half of the steps, as the message names it
    """

    what = "the guide as a whole"


_current: ContextVar[Budget | None] = ContextVar("guide_budget", default=None)


def spend(num_steps: int = 1) -> None:
    """Take steps from the current guide's budget, if there is one."""
    budget = _current.get()
    if budget is not None:
        budget.left -= num_steps
        if budget.left < 0:
            raise _OutOfSteps


class at_work:
    """A context in which a keyword is at work. When the budget is spent, the error names the
    innermost keyword that took at least half of it, if there is one.

    path: path of the subschema; None where `keyword` already is the whole name
    """

    def __init__(self, keyword: str, path: str | None) -> None:
        self._keyword, self._path = keyword, path

    def __enter__(self) -> None:
        self._budget = _current.get()
        self._left_before = 0 if self._budget is None else self._budget.left

    def __exit__(self, _: object, end: object, __: object) -> None:
        if not isinstance(end, _OutOfSteps) or end.what != _OutOfSteps.what:
            return
        if self._budget is not None and self._budget.took_most(self._left_before):
            place = "" if self._path is None else f" at {self._path[:_MAX_PATH]}/{self._keyword}"
            end.what = self._keyword + place


def kept(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Wrap a function so that it computes each result once per guide at work. Its arguments must be
    hashable."""

    @wraps(function)
    def ask(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        budget = _current.get()
        if budget is None:
            return function(*args, **kwargs)
        return budget.keep((function, *args), lambda: function(*args, **kwargs))

    return ask


def know(function: Callable[..., Any], result: Any, *args: Hashable) -> None:
    """Set the result of a `kept` function for these arguments, where it is already known."""
    budget = _current.get()
    if budget is not None:
        budget.keep((unwrap(function), *args), lambda: result)


def kept_of(make: Callable[[_Thing], _Result], thing: _Thing) -> _Result:
    """The result of `make` for a thing, made once per guide at work. The thing needs no hash: it is
    recognized by its identity."""
    budget = _current.get()
    if budget is None:
        return make(thing)
    # The thing is kept too: while it lives, no other object gets its id.
    _, made = budget.keep((make, id(thing)), lambda: (thing, make(thing)))
    return made
