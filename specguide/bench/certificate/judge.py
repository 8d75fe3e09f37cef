"""Owns what `jsonschema` says about texts and beginnings of texts, with a time limit for each."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema

from specguide.bench.certificate.partial import HOLE, Partial, Path
from specguide.bench.validation import exactly
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import RegexError
from specguide.guided.regex.whole import whole
from specguide.guided.regex.writer import is_exact
from specguide.guided.schema.formats import FORMATS

_MOST_ERRORS = 30
_STRICT = ("ipv4", "ipv6", "date", "uuid")
"""Formats that `jsonschema` checks as strictly as their sources, in drafts whose formats it
checks."""
_VALUES = ("const", "enum", "default", "examples")
_NO_NAME = "\uffff no name"
_GROWS = ("maxItems", "maxProperties", "additionalProperties", "additionalItems", "items")
"""Keywords whose errors remain, whatever members or items follow."""
_BY_MORE = ("then", "else", "if", "unevaluatedProperties", "unevaluatedItems")
"""Keywords in an error's path whose result more members may change."""


@lru_cache(maxsize=1024)
def _is_read_in_ways(pattern: Any) -> bool:
    """Whether dialects of regular expressions disagree on what a pattern accepts."""
    try:
        return not is_exact(whole(parse(pattern), search=True))
    except RegexError:
        return True


def _of_one_draft(schema: Any) -> Any:
    """A schema whose parts do not name its draft again. For parts that do, `jsonschema` makes a
    validator of its own, which does not see loose formats."""
    draft = schema.get("$schema") if isinstance(schema, dict) else None
    todo = [schema] if isinstance(draft, str) else []
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            if one.get("$schema") == draft:
                del one["$schema"]
            todo += (value for name, value in one.items() if name not in _VALUES)
        elif isinstance(one, list):
            todo += one
    return schema


class TooLong(Exception):
    """The validator exceeded its time limit."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong if the block takes longer, even inside the match of a pattern. Only on the main
    thread, and on systems with such timers; elsewhere there is no limit."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def end(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Judge:
    """The validator of a schema, which checks formats and takes numbers exactly.

    seconds: time limit for one question
    is_sure: about the last text without a violation: none of its strings has a format that the
             validator checks more loosely than its source, or not at all, or a pattern that
             dialects of regular expressions read differently
    """

    def __init__(self, schema: Any, seconds: float = 1.0) -> None:
        cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        self.is_sure = True

        def watched(keyword: str, kind: type, is_loose: Callable[[Any], bool]) -> Any:
            def check(validator: Any, asked: Any, instance: Any, rest: Any) -> Any:
                self.is_sure &= not isinstance(instance, kind) or not is_loose(asked)
                return cls.VALIDATORS[keyword](validator, asked, instance, rest)

            return check

        loose = FORMATS.keys() - (cls.FORMAT_CHECKER.checkers.keys() & _STRICT)
        watchers = {
            "format": watched("format", str, loose.__contains__),
            "pattern": watched("pattern", str, _is_read_in_ways),
            "patternProperties": watched(
                "patternProperties", dict, lambda asked: any(map(_is_read_in_ways, asked))
            ),
        }
        checking = jsonschema.validators.extend(cls, watchers)
        asked = _of_one_draft(exactly(json.dumps(schema)))
        self._validator = checking(asked, format_checker=cls.FORMAT_CHECKER)
        self._seconds = seconds

    def violation(self, text: str) -> str | None:
        """Why a text is not an instance, None if it is one. Raises LookupError if that cannot be
        decided: it takes too long, or the validator fails."""
        self.is_sure = True
        try:
            with time_limit(self._seconds):
                error = next(self._validator.iter_errors(exactly(text)), None)
        except json.JSONDecodeError as found:
            return str(found)
        except Exception as found:  # a pattern that Python cannot read, values nested too deep …
            raise LookupError(f"jsonschema: {type(found).__name__}: {found}") from found
        return None if error is None else error.message

    def refutes(self, partial: Partial) -> bool:
        """Whether it is certain that no text with this beginning, and without duplicate keys, is an
        instance; False if unknown."""
        value = partial.value
        if partial.key is not None:
            inside = _at(value, partial.open[-1])
            inside[partial.key + _NO_NAME] = HOLE
        try:
            with time_limit(self._seconds):
                errors = islice(self._validator.iter_errors(value), _MOST_ERRORS)
                return any(_is_final(error, partial) for error in errors)
        except Exception:  # as above
            return False
        finally:
            if partial.key is not None:
                del inside[partial.key + _NO_NAME]


def _is_of_open_key(error: Any, partial: Partial) -> bool:
    """Whether an error may be about the name that stands for an open key."""
    assert partial.key is not None
    name = partial.key + _NO_NAME
    path = tuple(error.absolute_path)
    is_of_rest = path == partial.open[-1] and error.validator == "additionalProperties"
    return is_of_rest or name in path or error.instance == name


def _ends_names(error: Any, partial: Partial) -> bool:
    """Whether an error says that no name beginning with the open key may come in its object."""
    assert partial.key is not None
    here = partial.open[-1]
    if tuple(error.absolute_path) != here or error.validator != "additionalProperties":
        return False
    if error.validator_value is not False or error.schema.get("patternProperties"):
        return False
    taken = _at(partial.value, here)
    named = error.schema.get("properties", {})
    return not any(name.startswith(partial.key) for name in named if name not in taken)


def _is_final(error: Any, partial: Partial) -> bool:
    """Whether an error remains, whatever follows."""
    if partial.key is not None and _is_of_open_key(error, partial):
        return _ends_names(error, partial)
    if partial.open and any(step in _BY_MORE for step in error.absolute_schema_path):
        return False
    path: Path = tuple(error.absolute_path)
    value = _at(partial.value, path)
    if value is HOLE:
        return error.validator is None
    if path not in partial.open:
        return not _has_hole(value)
    if isinstance(value, dict) and isinstance(error.instance, str):
        return True  # a name of a property
    if error.validator in ("anyOf", "oneOf"):
        return _all_fail(error, partial)
    if error.validator in ("enum", "const"):
        listed = error.validator_value if error.validator == "enum" else [error.validator_value]
        return not any(_may_become(value, one) for one in listed)
    if isinstance(value, str):
        return error.validator in (None, "type", "maxLength")
    if isinstance(value, (dict, list)):
        return error.validator in (None, "type", *_GROWS)
    asked = error.validator_value
    numeric = {"number", "integer"} & set([asked] if isinstance(asked, str) else asked or ())
    return error.validator is None or (error.validator == "type" and not numeric)


def _all_fail(error: Any, partial: Partial) -> bool:
    """Whether every branch of a choice has an error that remains."""
    branches: dict[Any, bool] = {}
    for inner in error.context:
        branch = inner.relative_schema_path[0]
        branches[branch] = branches.get(branch, False) or _is_final(inner, partial)
    return len(branches) == len(error.validator_value) and all(branches.values())


def _may_become(value: Any, listed: Any) -> bool:
    """Whether an open value can still become one of the listed values."""
    if isinstance(value, str):
        return isinstance(listed, str) and listed.startswith(value)
    if isinstance(value, (dict, list)):
        return isinstance(listed, type(value))
    return not isinstance(listed, (str, dict, list, bool, type(None)))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _has_hole(value: Any) -> bool:
    todo = [value]
    while todo:
        one = todo.pop()
        if one is HOLE:
            return True
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return False
