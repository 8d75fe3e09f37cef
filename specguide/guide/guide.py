"""Owns what an output must match: Guide, and the Reasoning that may come before it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide.ready_grammars import grammar_text, schema_text
from specguide.inputs.field_values import converted
from specguide.inputs.integers import as_int, is_int

KEY_ORDERS = ("schema", "any")
"""Properties in the schema's order, and others behind them; or in any order, each once."""


@dataclass(frozen=True)
class Guide:
    """The grammar an output must match; holds exactly one of its kinds.

    json_schema:    a JSON Schema as a dict, a bool or JSON text; or "@NAME", one of the library
    json_object:    True: any JSON object
    regex:          the whole output matches this regular expression
    grammar:        a context-free grammar, EBNF (GBNF flavour, `root ::= …`) or Lark (`start: …`);
                    or "@NAME", one of the library (specguide.guide.ready_grammars)
    choice:         the output is one of these strings
    structural_tag: a structural tag (xgrammar's format) as a dict or JSON text
    matcher:        a function that makes a matcher of your own, see
                    specguide.guided.matcher.Matcher
    backend:        "auto" or the name of one grammar backend ("llguidance", "xgrammar"); one that
                    there is not is refused where the guide is compiled
    key_order:      of JSON objects: "schema", properties come in the schema's order and others
                    behind them, but where a schema can be enforced in any order alone; "any", in
                    any order, each once; None: as the engine has it
    layout:         of a guide for tools: what it fixes of its texts, for those who read them
                    (specguide.guided.tools.CallLayout); the grammar is the same with it and without
    param:          the field of a request that it is from, where it is from one
    calls:          of a guide for many tools: how their calls begin, so that arguments are compiled
                    as they are needed: the fields of specguide.guided.known.call_texts.CallTexts.
                    They are taken for true of the grammar. What may be written is the same without
    reads_one_way:  of a Lark grammar: no terminal takes a text that the grammar means for another,
                    so that ends are where its rules have them. Taken for true, as `calls`
    as_tag:         of a Lark grammar of which terminals may take such texts: a structural tag, as
                    JSON text, that is taken in its place where a backend enforces it. Taken for
                    true, as `calls`
    is_part:        of a Lark grammar: it is a part of one that was asked for and checked as a
                    whole, and whose ends are known there. Taken for true, as `calls`

    Raises InvalidGuide when none or several kinds are given or one is malformed.
    """

    json_schema: Mapping[str, Any] | bool | str | None = converted(None, schema_text)
    json_object: bool | None = None
    regex: str | None = None
    grammar: str | None = converted(None, grammar_text)
    choice: Sequence[str] | None = None
    structural_tag: Mapping[str, Any] | str | None = None
    matcher: Callable[[], Any] | None = None
    backend: str | None = field(default=None, kw_only=True)
    key_order: str | None = field(default=None, kw_only=True)
    layout: Any = field(default=None, kw_only=True, compare=False, repr=False)
    param: str | None = field(default=None, kw_only=True, compare=False, repr=False)
    calls: Mapping[str, Any] | None = field(default=None, kw_only=True, compare=False, repr=False)
    reads_one_way: bool = field(default=False, kw_only=True, compare=False, repr=False)
    as_tag: str | None = field(default=None, kw_only=True, compare=False, repr=False)
    is_part: bool = field(default=False, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        given = [name for name in _KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise InvalidGuide(
                f"a Guide holds exactly one of {', '.join(_KINDS)}; found {found}", param="guide"
            )
        source = _CHECKS[given[0]](getattr(self, given[0]))
        if source is not None:
            self.__dict__["_source"] = source
        if self.key_order is not None:
            check_key_order(self.key_order)

    @property
    def kind(self) -> str:
        """Name of the field that is set."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    def source(self) -> str:
        """The guide as canonical text: what backends compile and what a cache keys on. A matcher
        has none."""
        return self._source

    @cached_property
    def _source(self) -> str:
        value = getattr(self, self.kind)
        return value if isinstance(value, str) else _canonical(value)


@dataclass(frozen=True)
class Reasoning:
    """Free text that a model writes before the guided answer, as reasoning models do between marks.

    end:        the mark that ends it, special tokens of the model or any text; the guide begins
                behind it. Where text and special tokens are mixed, or there are several, the first
                ends it, and the others must follow
    begin:      the mark that it must begin with; None where the prompt has begun it already
    max_tokens: after so many tokens of free text the end mark must follow; None: no limit
    instead:    what the model may write in the place of `begin` and all up to the guide; "":
                nothing; None: it must begin. Where both begin with special tokens; else it must
    cut_by:     a special token that ends the free text, too, where the guide may begin with it;
                None: there is none

    Raises InvalidParams.
    """

    end: str = "</think>"
    begin: str | None = None
    max_tokens: int | None = converted(None, as_int)
    instead: str | None = None
    cut_by: str | None = None

    def __post_init__(self) -> None:
        if self.begin is None and self.instead is not None:
            raise InvalidParams(
                "a mark instead of reasoning needs the mark `begin`: with None the prompt has "
                "begun it",
                param="reasoning",
            )
        for name in ("end", "begin", "instead", "cut_by"):
            mark = getattr(self, name)
            is_missing = mark is None and name != "end"
            if not (is_missing or is_text(mark) or (name == "instead" and mark == "")):
                raise InvalidParams(
                    f"the {name} mark of reasoning must be a non-empty Unicode text, found "
                    f"{mark!r}",
                    param="reasoning",
                )
        if self.max_tokens is not None and not (is_int(self.max_tokens) and self.max_tokens >= 0):
            raise InvalidParams(
                "max_tokens of reasoning must be an integer ≥ 0 or None, found "
                f"{self.max_tokens!r}",
                param="reasoning",
            )


def check_key_order(value: Any) -> None:
    """Raises InvalidGuide for what is none of KEY_ORDERS."""
    if value not in KEY_ORDERS:
        known = " or ".join(map(repr, KEY_ORDERS))
        raise InvalidGuide(f"key_order must be {known}, found {value!r}", param="key_order")


def is_text(value: Any) -> bool:
    """Whether a value is a text that is not empty and has no half of a surrogate pair, which JSON
    can spell."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_KINDS = tuple(f.name for f in fields(Guide) if not f.kw_only)


def _canonical(value: Any, *, allow_nan: bool = True) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":"))


def _check_json(kind: str, types: tuple[type, ...]) -> Any:
    """A check that returns the value as canonical text."""

    def check(value: Any) -> str:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:  # also a number of thousands of digits
                raise InvalidGuide(f"{kind} is not valid JSON: {error}", param=kind) from error
        if not isinstance(value, types):
            found = type(value).__name__
            if hasattr(value, "model_json_schema"):
                model = value if isinstance(value, type) else type(value)
                found = f"a model of pydantic: give {model.__name__}.model_json_schema()"
            raise InvalidGuide(f"{kind} must be a JSON object, found {found}", param=kind)
        try:
            text = _finite_text(value)
            if text is not None:
                return text
            text = _canonical(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidGuide(f"{kind} cannot be written as JSON: {error}", param=kind) from error
        check_finite(value, kind)
        return text

    return check


def check_finite(value: Any, kind: str) -> None:
    """Raises InvalidGuide, with keyword and JSON pointer, for a number that JSON does not have:
    Python reads NaN and Infinity, and 1e999 as infinity. kind: the guide's field"""
    if _finite_text(value) is not None:
        return
    for path, number in _floats(value):
        if not math.isfinite(number):
            keyword = next((step for step in reversed(path) if isinstance(step, str)), kind)
            pointer = "".join(
                f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path
            )
            raise InvalidGuide(
                f"{keyword} at {pointer or 'the root'} is {number}; a number must be finite, at "
                "most 1.7976931348623157e308",
                param=kind,
            )


def _finite_text(value: Any) -> str | None:
    """The value as canonical text; None where others could not read it as JSON."""
    try:
        return _canonical(value, allow_nan=False)
    except (TypeError, ValueError):
        return None


def _floats(value: Any) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """All floats in a JSON value, each with the steps that lead to it."""
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, float):
            yield path, value
        elif isinstance(value, Mapping):
            todo += [((*path, name), child) for name, child in value.items()]
        elif isinstance(value, (list, tuple)):
            todo += [((*path, index), child) for index, child in enumerate(value)]


def _check_text(kind: str) -> Any:
    def check(value: Any) -> None:
        if not isinstance(value, str) or not value:
            raise InvalidGuide(f"{kind} must be a non-empty string", param=kind)

    return check


def _check_json_object(value: Any) -> None:
    if value is not True:
        raise InvalidGuide(
            "json_object takes only True; leave it out to generate freely", param="json_object"
        )


def _check_matcher(value: Any) -> None:
    if not callable(value):
        raise InvalidGuide(
            f"matcher must be a function that makes a matcher, found {type(value).__name__}",
            param="matcher",
        )


def _check_choice(value: Any) -> None:
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not value
        or not all(isinstance(item, str) and item for item in value)
    ):
        raise InvalidGuide("choice must be a non-empty list of non-empty strings", param="choice")


_CHECKS = {
    "json_schema": _check_json("json_schema", (Mapping, bool)),
    "json_object": _check_json_object,
    "regex": _check_text("regex"),
    "grammar": _check_text("grammar"),
    "choice": _check_choice,
    "structural_tag": _check_json("structural_tag", (Mapping,)),
    "matcher": _check_matcher,
}
