"""Owns the negation of the bounds of numbers, lengths and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from specguide.guided.schema.core.nodes import (
    Arrays,
    Node,
    Numbers,
    Objects,
    Strings,
    arrays,
    numbers,
    objects,
    strings,
)
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import Json, Number
from specguide.guided.schema.negation.forms import Form
from specguide.guided.schema.negation.negation import Negation, Rule

_BEYOND: dict[str, Callable[[Number], Numbers]] = {
    "minimum": lambda bound: Numbers(exclusive_maximum=bound),
    "maximum": lambda bound: Numbers(exclusive_minimum=bound),
    "exclusiveMinimum": lambda bound: Numbers(maximum=bound),
    "exclusiveMaximum": lambda bound: Numbers(minimum=bound),
}
"""Keyword → the numbers beyond its bound."""


_EXCLUSIVE = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}


def _numeric(keyword: str) -> Rule:
    exclusive = _EXCLUSIVE.get(keyword, keyword)

    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        if not isinstance(schema[keyword], bool):
            bound = exclusive if schema.get(exclusive) is True else keyword  # as in draft 4
            yield numbers(place.path, _BEYOND[bound](schema[keyword]))

    return rule


_TOO_FEW: dict[str, Callable[[str, int], Node]] = {
    "minLength": lambda path, count: strings(path, Strings(max_length=count - 1)),
    "minItems": lambda path, count: arrays(path, Arrays(max_items=count - 1)),
    "minProperties": lambda path, count: objects(path, Objects(max_properties=count - 1)),
}
_TOO_MANY: dict[str, Callable[[str, int], Node]] = {
    "maxLength": lambda path, count: strings(path, Strings(min_length=count + 1)),
    "maxItems": lambda path, count: arrays(path, Arrays(min_items=count + 1)),
    "maxProperties": lambda path, count: objects(path, Objects(min_properties=count + 1)),
}
"""Keyword → the node of the values beyond its count, at a path."""


def _sized(keyword: str) -> Rule:
    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        count = int(schema[keyword])
        if keyword in _TOO_MANY:
            yield _TOO_MANY[keyword](place.path, count)
        elif count > 0:
            yield _TOO_FEW[keyword](place.path, count)

    return rule


BOUND_RULES: dict[str, Rule] = {
    **{name: _numeric(name) for name in _BEYOND},
    **{name: _sized(name) for name in (*_TOO_FEW, *_TOO_MANY)},
}
