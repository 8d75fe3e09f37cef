"""Owns Guide, which says what an output must match, and the Reasoning that may come before it."""

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
from specguide.other_engines import OTHER_GUIDE, knows_others, unknown, without_others

KEY_ORDERS = ("schema", "any")
"""The orders of keys: properties in the schema's order, others behind them; or any order, each
once."""


def _ours(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The given arguments by our names. Raises InvalidParams, and TypeError for an unknown name."""
    if given.keys() <= _OWN_NAMES:
        return given
    rest = without_others(OTHER_GUIDE, given, str)
    for name in rest:
        if name not in _OWN_NAMES:
            raise unknown("Guide", name, _OWN_NAMES)
    return rest


@knows_others(_ours)
@dataclass(frozen=True)
class Guide:
    """The grammar that an output must match. Exactly one of its kinds must be given.

    json_schema:    a JSON Schema as a dict, a bool or JSON text; or "@NAME", one of the library
    json_object:    True: any JSON object
    regex:          a regular expression that the whole output matches
    grammar:        a context-free grammar, EBNF (GBNF flavour, `root ::= …`) or Lark (`start: …`);
                    or "@NAME", one of the library (specguide.guide.ready_grammars)
    choice:         the output is one of these strings
    structural_tag: a structural tag (xgrammar's format) as a dict or JSON text
    matcher:        a function that makes a matcher of your own, see
                    specguide.guided.matcher.Matcher
    backend:        "auto" or the name of one grammar backend ("llguidance", "xgrammar"); an unknown
                    name is refused when the guide is compiled
    key_order:      order of keys in JSON objects. "schema": properties come in the schema's order,
                    others behind them, unless the schema can only be enforced in any order; "any":
                    in any order, each once; None: as the engine is configured
    layout:         for a guide for tools: the parts of its texts that it fixes, for readers of
                    outputs (specguide.guided.tools.CallLayout); it does not change the grammar
    param:          the field of a request from which the guide comes, if any
    calls:          for a guide for many tools: how their calls begin, so that arguments are
                    compiled when they are needed: the fields of
                    specguide.guided.known.call_texts.CallTexts. Trusted to be true of the grammar,
                    and does not change what may be written
    reads_one_way:  for a Lark grammar: no terminal takes text that the grammar means for another,
                    so texts end where its rules say. Trusted, as `calls`
    as_tag:         for a Lark grammar whose terminals may take such text: a structural tag, as JSON
                    text, that replaces it where a backend enforces the tag. Trusted, as `calls`
    is_part:        for a Lark grammar: it is a part of a grammar that was checked as a whole, and
                    whose ends are known. Trusted, as `calls`

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
        """The guide as canonical text, which backends compile and which is a cache's key. A matcher
        has none."""
        return self._source

    @cached_property
    def _source(self) -> str:
        value = getattr(self, self.kind)
        return value if isinstance(value, str) else _canonical(value)


_OWN_NAMES = frozenset(entry.name for entry in fields(Guide))


@dataclass(frozen=True)
class Reasoning:
    """Free text that a model writes before the guided answer, as reasoning models do between marks.

    end:        the mark that ends it, special tokens of the model or any text; the guide begins
                behind it. Where it mixes text and special tokens, or has several, its first part
                ends the free text, and the other parts must follow
    begin:      the mark with which it must begin; None where the prompt has already begun it
    max_tokens: most tokens of free text before the end mark; None: no limit
    instead:    what the model may write in place of `begin` and everything up to the guide; "":
                nothing; None: the section must come. Only where both begin with special tokens;
                else it must come
    cut_by:     a special token that also ends the free text, where the guide may begin with it;
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
                "reasoning has the mark `instead` without the mark `begin`: give `begin` too, "
                "since with None the prompt has already begun the reasoning",
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
    """Raises InvalidGuide unless `value` is one of KEY_ORDERS."""
    if value not in KEY_ORDERS:
        known = " or ".join(map(repr, KEY_ORDERS))
        raise InvalidGuide(f"key_order must be {known}, found {value!r}", param="key_order")


def is_text(value: Any) -> bool:
    """Whether a value is a non-empty text without surrogate halves, which JSON can spell."""
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
                found = f"a pydantic model: give {model.__name__}.model_json_schema()"
            raise InvalidGuide(f"{kind} must be a JSON object, found {found}", param=kind)
        if kind == "json_schema":
            _check_unwrapped(value)
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


def _check_unwrapped(schema: Any) -> None:
    """Raises InvalidGuide for what OpenAI's API puts around a schema: as a schema it would allow
    everything."""
    around = {"name", "schema", "strict", "description"}
    if isinstance(schema, Mapping) and {"name", "schema"} <= schema.keys() <= around:
        raise InvalidGuide(
            "json_schema has a name and a schema, as response_format has them, and no keyword of a "
            "schema: give only what its 'schema' is",
            param="json_schema",
        )


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
    """The value as canonical text; None where other programs could not read that as JSON."""
    try:
        return _canonical(value, allow_nan=False)
    except (TypeError, ValueError):
        return None


def _floats(value: Any) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """All floats in a JSON value, each with its path."""
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
            raise InvalidGuide(
                f"{kind} must be a non-empty string, found {value!r:.80}", param=kind
            )

    return check


def _check_json_object(value: Any) -> None:
    if value is not True:
        raise InvalidGuide(
            "json_object must be True, or be left out to generate freely", param="json_object"
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
        raise InvalidGuide(
            f"choice must be a non-empty list of non-empty strings, found {value!r:.80}",
            param="choice",
        )


_CHECKS = {
    "json_schema": _check_json("json_schema", (Mapping, bool)),
    "json_object": _check_json_object,
    "regex": _check_text("regex"),
    "grammar": _check_text("grammar"),
    "choice": _check_choice,
    "structural_tag": _check_json("structural_tag", (Mapping,)),
    "matcher": _check_matcher,
}
