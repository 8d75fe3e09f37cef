"""Owns the lowering of types, constants, numbers and strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from specguide.guided.budget import know, spend
from specguide.guided.regex.charset import Ranges
from specguide.guided.regex.tree import Regex
from specguide.guided.regex.whole import searched
from specguide.guided.schema.core.nodes import (
    Core,
    Kinds,
    Node,
    Numbers,
    Strings,
    one_of_values,
    refuse,
    typed,
)
from specguide.guided.schema.core.pattern_text import read_pattern, refusing, write_pattern
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.formats import FORMAT_LENGTHS, FORMATS, FORMATS_ALSO, SHORT_FORMATS
from specguide.guided.schema.json_values import (
    TYPES,
    Json,
    Number,
    has_type,
    is_number,
    named_types,
)
from specguide.guided.schema.lowering.lowering import Lowering
from specguide.guided.schema.topics import (
    ARRAY,
    DEPENDENCIES,
    NUMBER,
    OBJECT,
    STRING,
    allowed_types,
)

_APPLIED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_JUDGED = frozenset(
    {
        *NUMBER,
        *STRING,
        *ARRAY,
        *OBJECT,
        *DEPENDENCIES,
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
    }
)
_OF_TYPES = frozenset((*NUMBER, *STRING, *ARRAY, *OBJECT))


def lower_type(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """Yields the core of `type`, unless the other keywords imply it."""
    others = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    if "const" in schema or "enum" in schema:
        return
    if (
        not _APPLIED.isdisjoint(others)
        and _OF_TYPES.isdisjoint(others)
        and "integer" not in schema["type"]
        and lowering.comparison.possible_types((others, place)) <= allowed_types(schema)
    ):
        return
    yield typed(place.path, *(named_types(schema) or TYPES))


def lower_values(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """Yields the core of `const` and `enum`: the values that have the type."""
    values = [schema["const"]] if "const" in schema else schema["enum"]
    fitting = [value for value in values if has_type(value, named_types(schema))]
    keyword = "const" if "const" in schema else "enum"
    for value in fitting:
        _check_exact(value, keyword, place.path)
    yield one_of_values(place.path, fitting)
    if "const" in schema and "enum" in schema:
        yield from lower_values(
            lowering, {key: value for key, value in schema.items() if key != "const"}, place
        )


def listed_values(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Core | None:
    """Returns the enumeration of a subschema that lists values and has further constraints: the
    values that meet them.

    None where it lists none, constrains only the type, or no listed value certainly meets the
    constraints though one may.
    """
    if not _constrains_listed_values(schema):
        return None
    conjuncts = lowering.comparison.conjuncts((schema, place))
    listing = ((part, there) for part, there in conjuncts if "const" in part or "enum" in part)
    part, there = next(listing, (None, place))
    if part is None:
        return None
    keyword = "const" if "const" in part else "enum"
    values = [part["const"]] if keyword == "const" else part["enum"]
    answers = [lowering.instances.fits(schema, place, value) for value in values]
    fitting = [value for value, answer in zip(values, answers, strict=True) if answer]
    if not fitting and None in answers:
        return None
    for value in fitting:
        _check_exact(value, keyword, there.path)
    return one_of_values(there.path, fitting)


def _constrains_listed_values(schema: Mapping[str, Json]) -> bool:
    """Whether a subschema may list values, itself or by reference, and constrain them further."""
    if schema.keys() & {"const", "enum"}:
        return not schema.keys().isdisjoint(_JUDGED)
    if "allOf" in schema:
        return True
    return "$ref" in schema and not schema.keys().isdisjoint(_JUDGED | {"type"})


def lower_number(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """Yields the core of a subschema's number keywords; draft 4's boolean bounds become numbers."""
    least, above = _bounds(schema.get("minimum"), schema.get("exclusiveMinimum"))
    most, below = _bounds(schema.get("maximum"), schema.get("exclusiveMaximum"))
    step = schema.get("multipleOf")
    numbers = Numbers(least, above, most, below, None if step is None else _whole(step))
    yield Node(place.path, Kinds(numbers=numbers))


def _bounds(bound: Json, exclusive: Json) -> tuple[Number | None, Number | None]:
    """The inclusive and the exclusive bound."""
    whole = None if bound is None else _whole(bound)
    if exclusive is True:  # draft 4
        return None, whole
    return whole, _whole(exclusive) if is_number(exclusive) else None


def lower_string(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """Yields the core of a subschema's string keywords; a format becomes a pattern."""
    formats, longest = _format(lowering.document.asserted_format(schema), lowering.short_formats)
    least, most = _lengths(schema, longest)
    patterns = [("pattern", schema["pattern"])] if "pattern" in schema else []
    if not lowering.capabilities.counts_characters and (least, most) != (None, None):
        if most is not None and (least or 0) > most:
            yield other_types(schema, "string", place.path)
            return
        patterns.append(("maxLength", _of_length(least, most)))
        least, most = None, None
    characters = lowering.capabilities.characters
    with refusing("pattern", place.path):
        texts = [
            (keyword, write_pattern(read_pattern(pattern, keyword, place.path), characters))
            for keyword, pattern in patterns
        ]
    texts += [("format", _format_text(pattern, characters)) for pattern in formats]
    for keyword, text in texts:
        if text is None:
            why = "no string that can be generated matches it; make it match one"
            raise refuse(keyword, place.path, why)
    for _, text in texts[1:]:
        yield Node(place.path, Kinds(strings=Strings(pattern=text)))
    first = texts[0][1] if texts else None
    yield Node(place.path, Kinds(strings=Strings(least, most, first)))


def other_types(schema: Mapping[str, Json], name: str, path: str) -> Core:
    """Returns all values of a subschema's types except those of the type `name`."""
    others = allowed_types(schema) - {name}
    return typed(path, *sorted(others)) if others else False


def _of_length(least: int | None, most: int | None) -> str:
    """A pattern of the strings of `least` to `most` characters."""
    return f"^[\\0-\\u{{10FFFF}}]{{{least or 0},{'' if most is None else most}}}$"


def lengths_as_pattern(lowering: Lowering, node: Node) -> Node:
    """Returns a node without a pattern; where the backend does not count characters, with a pattern
    in place of its lengths."""
    least, most = node.kinds.strings.min_length, node.kinds.strings.max_length
    if lowering.capabilities.counts_characters or (least, most) == (None, None):
        return node
    tree = read_pattern(_of_length(least, most), "maxLength", node.path)
    with refusing("maxLength", node.path):
        text = write_pattern(tree, lowering.capabilities.characters)
    return replace(node, kinds=replace(node.kinds, strings=Strings(pattern=text)))


def _lengths(schema: Mapping[str, Json], longest: int | None) -> tuple[int | None, int | None]:
    """The least and the greatest length. longest: the greatest length of its format"""
    least = int(schema["minLength"]) if "minLength" in schema else None
    most = int(schema["maxLength"]) if "maxLength" in schema else longest
    if most is not None and longest is not None:
        most = min(most, longest)
    return least, most


def _format_text(pattern: str, characters: Ranges) -> str | None:
    """The core's pattern of a format. Its tree is remembered for `searched`."""
    text, tree = _written(pattern, characters)
    if text is not None:
        know(searched, tree, text)
    return text


@lru_cache(maxsize=128)
def _written(pattern: str, characters: Ranges) -> tuple[str | None, Regex | None]:
    """The core's pattern of a format and its tree; the same for all schemas."""
    text = write_pattern(read_pattern(f"^(?:{pattern})$", "format", ""), characters)
    return text, None if text is None else searched(text)


def _format(name: str | None, short: bool) -> tuple[list[str], int | None]:
    """The patterns of a format, whose conjunction it is, and its greatest length."""
    if name is None or name not in FORMATS:
        return [], None
    if short and name in SHORT_FORMATS:
        return [SHORT_FORMATS[name]], None
    return [table[name] for table in (FORMATS, FORMATS_ALSO) if name in table], FORMAT_LENGTHS.get(
        name
    )


def _check_exact(value: Json, keyword: str, path: str, only_doubles: bool = False) -> None:
    """Raises UnsupportedGuide for an integer that backends would round: inside lists and objects
    some read numbers as doubles."""
    spend(1 + (len(value) // 16 if isinstance(value, str) else 0))
    if isinstance(value, (list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            _check_exact(item, keyword, path, True)
    elif only_doubles and is_number(value) and not isinstance(value, float) and abs(value) > 2**53:
        why = f"inside a list or object, some backends round {value}; list it as a string"
        raise refuse(keyword, path, why)


def _whole(value: Number) -> Number:
    return (
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
        else value
    )
