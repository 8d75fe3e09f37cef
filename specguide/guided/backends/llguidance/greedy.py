"""Owns the check that a greedy lexer reads a structural tag as it is meant.

llguidance splits text into terminals, and a terminal takes as many characters as it can: behind the
number 1 it takes the E of an end string END for the exponent of 1E5, and cannot go back. So for any
two formats that follow each other, or are alternatives, this checks whether a terminal of one might
run on into the other. If so, the tag is refused; a backend that reads character by character may
take it. A tag in which JSON schemas meet is refused too: where JSON may begin beside or behind
other JSON, the library allows whitespace.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.regex.automaton import automaton
from specguide.guided.regex.charset import EVERYTHING, Ranges, intersect, union
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import Concat, RegexError, UnsupportedRegex, literals
from specguide.guided.regex.whole import whole
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.json_values import Json, JsonSchema, named_types

Node = dict[str, Json]


@dataclass(frozen=True, eq=False)
class _Shape:
    """What is known of a format's texts.

    first:        characters with which they begin
    runs_on:      characters with which a terminal at their end might continue
    may_be_empty: one of them is the empty text
    is_json:      they are JSON, whose own terminals never run on into each other
    literal:      the terminal with which all of them begin, "" where there is none; `rest`: the
                  shape of what is behind it
    again:        what may come in place of the next format: a repetition of the last one
    branches:     the shapes of the alternatives, where it is a choice
    mixed:        the part of `runs_on` that is there because one text is a prefix of another
    num_json:     number of JSON schemas with which they may begin, 2 for more; `ends_json`: whether
                  they may end with one
    """

    first: Ranges = ()
    runs_on: Ranges = ()
    may_be_empty: bool = False
    is_json: bool = False
    literal: str = ""
    rest: _Shape | None = None
    again: _Shape | None = None
    branches: tuple[_Shape, ...] = ()
    mixed: Ranges = ()
    num_json: int = 0
    ends_json: bool = False


_MAX_INSTEAD = 64
_EMPTY = _Shape(may_be_empty=True)
_LAZY_TEXT = _Shape(first=EVERYTHING)


def check_greedy(format_: Node) -> None:
    """Raises UnsupportedGuide where a greedy lexer would not allow all that the format of a
    structural tag says."""
    _shape(format_)


def _shape(node: Node) -> _Shape:
    return _SHAPES[node["type"]](node)


def _const(text: str) -> _Shape:
    return _Shape(_one(text[0]), literal=text, rest=_EMPTY) if text else _EMPTY


def _one(char: str) -> Ranges:
    return ((ord(char), ord(char)),)


def _json_schema(node: Node) -> _Shape:
    schema = node["json_schema"]
    first = "".join(_FIRST_OF[name] for name in _types(schema))
    is_number = any(char in _NUMBER for char in first)
    runs_on = union(*map(_one, _NUMBER)) if is_number else ()
    return _Shape(union(*map(_one, first)), runs_on, is_json=True, num_json=1, ends_json=True)


def _types(schema: CoreSchema | JsonSchema) -> tuple[str, ...]:
    """The types that a schema lists at its root; all types where it lists none."""
    if isinstance(schema, CoreSchema):
        named = None if isinstance(schema.root, bool) else schema.root.kinds.types
    else:
        named = None if isinstance(schema, bool) else named_types(schema)
    return named or _TYPES


_NUMBER = "+-.0123456789eE"
_FIRST_OF = {
    "object": "{",
    "array": "[",
    "string": '"',
    "boolean": "tf",
    "null": "n",
    "integer": "-0123456789",
    "number": "-0123456789",
}
_TYPES = tuple(_FIRST_OF)


def _regex(pattern: str, ends: Sequence[str] = ("",)) -> _Shape:
    """The shape of one terminal: a regular expression, and behind it one of the strings `ends`."""
    try:
        body, end = whole(parse(pattern), search=False), literals(ends)
        found = automaton(Concat((body, end)), outer=True)
    except (UnsupportedRegex, RegexError):
        return _Shape(EVERYTHING, EVERYTHING, may_be_empty=True)
    edges = [tuple((low, high) for low, high, _ in state) for state in found.edges]
    return _Shape(
        first=union(edges[0] if edges else ()),
        runs_on=union(*(edges[state] for state in found.accepting)),
        may_be_empty=0 in found.accepting,
    )


def _any_text(node: Node) -> _Shape:
    return _Shape(EVERYTHING, EVERYTHING, may_be_empty=True)


def _tag(node: Node) -> _Shape:
    return _then(_const(node["begin"]), _content_and_end(node))


def _content_and_end(node: Node) -> _Shape:
    content = node["content"]
    ends = [node["end"]] if isinstance(node["end"], str) else node["end"]
    if content["type"] == "any_text" and all(ends):
        return _LAZY_TEXT
    if content["type"] == "regex":
        return _regex(content["pattern"], ends)
    return _then(_shape(content), _either([_const(end) for end in ends]))


def tags_of_triggers(triggers: list[str], tags: list[Node]) -> Iterator[tuple[str, list[Node]]]:
    """Each trigger with the tags that begin with it, in their order."""
    places = sorted(range(len(tags)), key=lambda place: str(tags[place]["begin"]))
    begins = [tags[place]["begin"] for place in places]
    for trigger in triggers:
        last = first = bisect_left(begins, trigger)
        while last < len(begins) and begins[last].startswith(trigger):
            last += 1
        yield trigger, [tags[place] for place in sorted(places[first:last])]


def _triggered_tags(node: Node) -> _Shape:
    for trigger, tags in tags_of_triggers(node["triggers"], node["tags"]):
        if tags:
            rests = [
                _then(_const(tag["begin"][len(trigger) :]), _content_and_end(tag)) for tag in tags
            ]
            _then(_either(rests), _EMPTY if node.get("stop_after_first") else _any_text(node))
    return _any_text(node)


def _tags_with_separator(node: Node) -> _Shape:
    tags = _either([_tag(tag) for tag in node["tags"]])
    if not node.get("stop_after_first"):
        tags = _then(tags, _repeated(_then(_const(node["separator"]), tags), may_be_empty=True))
    return tags if node.get("at_least_one") else _repeated(tags, may_be_empty=True, most=1)


def _repeat(node: Node) -> _Shape:
    return _repeated(_shape(node["content"]), may_be_empty=node["min"] == 0, most=node["max"])


def _repeated(shape: _Shape, *, may_be_empty: bool, most: int = -1) -> _Shape:
    once = shape
    if most not in (0, 1):
        shape = _then(once, replace(once, may_be_empty=True, again=_any(once, once.again)))
    return (
        replace(shape, may_be_empty=True, again=_any(once, shape.again)) if may_be_empty else shape
    )


def _any(*shapes: _Shape | None) -> _Shape | None:
    branches = [branch for shape in shapes if shape for branch in (shape.branches or (shape,))]
    if len(branches) > _MAX_INSTEAD:
        raise _refusal(f"more than {_MAX_INSTEAD} optional formats in a row")
    return _either(branches) if branches else None


def _then(before: _Shape, after: _Shape) -> _Shape:
    """The shape of two formats, one behind the other. Raises UnsupportedGuide where `before` might
    run on into `after`."""
    spend(8)
    if before is _EMPTY or after is _EMPTY:
        return after if before is _EMPTY else before
    if intersect(before.runs_on, after.first):
        raise _refusal("content that may run on into what follows; end it with a text")
    if before.ends_json and after.num_json:
        raise _refusal("JSON right after JSON, since whitespace may come between; put a text there")
    instead = _either([before.again, after]).mixed if before.again else ()
    empty = before.may_be_empty
    return _Shape(
        first=union(before.first, after.first if empty else ()),
        runs_on=union(after.runs_on, instead, before.runs_on if after.may_be_empty else ()),
        may_be_empty=empty and after.may_be_empty,
        literal="" if empty else before.literal,
        rest=None if empty or before.rest is None else _shallow(_then(before.rest, after)),
        again=_any(after.again, before.again if after.may_be_empty else None),
        num_json=before.num_json or (after.num_json if empty else 0),
        ends_json=after.ends_json or (before.ends_json and after.may_be_empty),
    )


def _shallow(shape: _Shape) -> _Shape:
    """The shape without its literal, since literals behind another literal are not tracked."""
    return shape if shape is _EMPTY else replace(shape, literal="", rest=None, branches=())


def _sequence(shapes: Sequence[_Shape]) -> _Shape:
    return reduce(lambda after, before: _then(before, after), reversed(shapes))


def _either(shapes: Sequence[_Shape]) -> _Shape:
    """The shape of a choice between formats. Raises UnsupportedGuide where one might be taken for
    another."""
    every = (branch for shape in shapes for branch in (shape.branches or (shape,)))
    flat = list(dict.fromkeys(every))
    spend(8 + 8 * len(flat))
    if len(flat) == 1:
        return shapes[0]
    by_literal: dict[str, list[_Shape]] = {}
    for shape in flat:
        by_literal.setdefault(shape.literal, []).append(shape)
    others = by_literal.pop("", [])
    rests = {
        literal: _behind([shape.rest or _EMPTY for shape in found])
        for literal, found in by_literal.items()
    }
    is_json = all(shape.is_json for shape in flat)
    num_json = sum(shape.num_json for shape in flat)
    if num_json > 1:
        raise _refusal(
            "several JSON schemas as alternatives, since whitespace may come before them; take one "
            "schema with anyOf"
        )
    taken = union(*(_one(literal[0]) for literal in rests))
    for shape in (one for one in others if one is not _EMPTY):
        if intersect(taken, shape.first) and not is_json:
            raise _refusal("alternative formats that begin alike")
        taken = union(taken, shape.first)
    mixed = union(_longer(rests), *(rest.mixed for rest in rests.values()))
    return _Shape(
        first=taken,
        runs_on=union(*(shape.runs_on for shape in flat), mixed),
        mixed=mixed,
        may_be_empty=any(shape.may_be_empty for shape in flat),
        is_json=is_json,
        again=_any(*(shape.again for shape in flat)),
        branches=tuple(flat),
        num_json=num_json,
        ends_json=any(shape.ends_json for shape in flat),
    )


def _behind(rests: list[_Shape]) -> _Shape:
    """The shape of what follows one literal with which several formats begin. Raises
    UnsupportedGuide where one format might be a prefix of another."""
    may_end = any(rest.may_be_empty for rest in rests)
    if len(rests) > 1 and may_end and any(rest is not _EMPTY for rest in rests):
        raise _refusal("alternative formats of which one may be the beginning of another")
    return _either(rests)


def _longer(rests: dict[str, _Shape]) -> Ranges:
    """Characters by which one literal continues to a longer one. Raises UnsupportedGuide where its
    rest might continue by them, too."""
    continuing: list[Ranges] = []
    for literal in rests:
        spend(len(literal) // 4)
        for length in range(1, len(literal)):
            rest = rests.get(literal[:length])
            if rest is None:
                continue
            if intersect(rest.first, _one(literal[length])):
                raise _refusal("alternative formats that begin alike")
            if rest.may_be_empty:
                continuing.append(_one(literal[length]))
    return union(*continuing)


def _refusal(what: str) -> UnsupportedGuide:
    return UnsupportedGuide(f"llguidance cannot compile a structural tag with {what}")


_SHAPES: dict[str, Callable[[Node], _Shape]] = {
    "const_string": lambda node: _const(node["value"]),
    "json_schema": _json_schema,
    "regex": lambda node: _regex(node["pattern"]),
    "grammar": lambda node: _LAZY_TEXT,  # in Lark, whose author has chosen the terminals
    "any_text": _any_text,
    "sequence": lambda node: _sequence([_shape(element) for element in node["elements"]]),
    "or": lambda node: _either([_shape(element) for element in node["elements"]]),
    "optional": lambda node: _repeated(_shape(node["content"]), may_be_empty=True, most=1),
    "plus": lambda node: _repeated(_shape(node["content"]), may_be_empty=False),
    "star": lambda node: _repeated(_shape(node["content"]), may_be_empty=True),
    "repeat": _repeat,
    "tag": _tag,
    "triggered_tags": _triggered_tags,
    "tags_with_separator": _tags_with_separator,
}
