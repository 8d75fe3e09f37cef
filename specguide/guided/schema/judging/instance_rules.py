"""Owns the rule of each keyword of JSON Schema: whether a value meets it.

Source: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from specguide.guided.schema.core.patterns import pattern_matches, pattern_may_match
from specguide.guided.schema.formats import FORMATS, FORMATS_ALSO, MATCHED_IN_PART
from specguide.guided.schema.json_values import (
    exact,
    has_type,
    keys_by_type,
    named_types,
    value_key,
)
from specguide.guided.schema.judging.answers import Answer, all_hold, any_holds, negated, num_hold
from specguide.guided.schema.judging.question import Question
from specguide.guided.schema.topics import ARRAY, DEPENDENCIES, DYNAMIC, NUMBER, OBJECT, STRING


def _matches(pattern: str, text: str) -> Answer:
    """Whether a pattern matches; None where dialects of regular expressions differ."""
    if pattern_matches(pattern, text):
        return True
    return None if pattern_may_match(pattern, text) else False


def _ref(question: Question) -> Answer:
    schema, place = question.judge.document.resolve(question.schema["$ref"], question.place)
    return question.judge.fits(schema, place, question.value, question.depth + 1)


def _values(question: Question) -> Answer:
    schema, key = question.schema, value_key(question.value)
    return ("const" not in schema or key == value_key(schema["const"])) and (
        "enum" not in schema or key in keys_by_type(schema["enum"]).get(question.kind, ())
    )


def _number(question: Question) -> Answer:
    if question.kind != "number":
        return True
    schema, value = question.schema, exact(question.value)
    for keyword, sign in (("minimum", 1), ("maximum", -1)):
        exclusive = schema.get(f"exclusive{keyword.capitalize()}")
        bounds = [(schema[keyword], exclusive is True)] if keyword in schema else []
        if exclusive is not None and not isinstance(exclusive, bool):
            bounds.append((exclusive, True))
        for bound, is_open in bounds:
            beyond = sign * (value - exact(bound))
            if beyond < 0 or (is_open and beyond == 0):
                return False
    return "multipleOf" not in schema or value % exact(schema["multipleOf"]) == 0


def _string(question: Question) -> Answer:
    if question.kind != "string":
        return True
    schema, value = question.schema, question.value
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    answers = [_matches(schema["pattern"], value)] if "pattern" in schema else []
    name = question.judge.document.asserted_format(schema)
    if name in FORMATS and not all(
        pattern_matches(f"^(?:{table[name]})$", value)
        for table in (FORMATS, FORMATS_ALSO)
        if name in table
    ):
        answers.append(None if name in MATCHED_IN_PART else False)
    return all_hold(answers)


def _array(question: Question) -> Answer:
    if question.kind != "array":
        return True
    schema, value = question.schema, question.value
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return False
    if schema.get("uniqueItems") and len(set(map(value_key, value))) < len(value):
        return False
    unevaluated = None if "unevaluatedItems" in schema else True
    return all_hold([all_hold(_items(question)), _contains(question), unevaluated])


def _items(question: Question) -> Iterator[Answer]:
    schema, value = question.schema, question.value
    items = schema.get("items", True)
    if isinstance(items, list):
        prefix, of_prefix = items, "items"
        rest, of_rest = schema.get("additionalItems", True), "additionalItems"
    else:
        prefix = schema.get("prefixItems", []) if question.judge.document.draft >= 2020 else []
        of_prefix = "prefixItems"
        rest, of_rest = items, "items"
    for i, (child, item) in enumerate(zip(prefix, value, strict=False)):
        yield question.value_fits(item, child, of_prefix, i)
    for item in value[len(prefix) :]:
        yield question.value_fits(item, rest, of_rest)


def _contains(question: Question) -> Answer:
    schema, document = question.schema, question.judge.document
    if "contains" not in schema or document.draft == 4:
        return True
    answers = [question.value_fits(item, schema["contains"], "contains") for item in question.value]
    return num_hold(answers, *document.num_contained(schema))


def _object(question: Question) -> Answer:
    if question.kind != "object":
        return True
    schema, value = question.schema, question.value
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        return False
    if not all(name in value for name in schema.get("required", ())):
        return False
    answers = [all_hold(_property(question, name)) for name in value]
    if "propertyNames" in schema:
        names = schema["propertyNames"]
        answers += [question.value_fits(name, names, "propertyNames") for name in value]
    return all_hold([*answers, None if "unevaluatedProperties" in schema else True])


def _property(question: Question, name: str) -> Iterator[Answer]:
    schema, value = question.schema, question.value[name]
    is_named = name in schema.get("properties", {})
    if is_named:
        yield question.value_fits(value, schema["properties"][name], "properties", name)
    for pattern, child in schema.get("patternProperties", {}).items():
        matches = _matches(pattern, name)
        if matches is not False:
            is_named = True
            yield matches and question.value_fits(value, child, "patternProperties", pattern)
    if not is_named:
        others = schema.get("additionalProperties", True)
        yield question.value_fits(value, others, "additionalProperties")


def _dependencies(question: Question) -> Answer:
    if question.kind != "object":
        return True
    answers: list[Answer] = []
    for keyword in DEPENDENCIES:
        for name, dependent in question.schema.get(keyword, {}).items():
            if name not in question.value:
                continue
            if isinstance(dependent, list):
                answers.append(all(other in question.value for other in dependent))
            else:
                answers.append(question.fits(dependent, keyword, name))
    return all_hold(answers)


def _options(question: Question, keyword: str) -> Iterator[Answer]:
    for i, child in enumerate(question.schema[keyword]):
        yield question.fits(child, keyword, i)


def _if(question: Question) -> Answer:
    condition = question.fits(question.schema["if"], "if")
    met = question.fits(question.schema.get("then", True), "then")
    unmet = question.fits(question.schema.get("else", True), "else")
    return any_holds([all_hold([condition, met]), all_hold([negated(condition), unmet])])


_Rule: TypeAlias = Callable[[Question], Answer]
RULES: dict[str, _Rule] = {
    "$ref": _ref,
    "type": lambda question: has_type(question.value, named_types(question.schema)),
    **dict.fromkeys(("const", "enum"), _values),
    **dict.fromkeys(NUMBER, _number),
    **dict.fromkeys(STRING, _string),
    **dict.fromkeys(ARRAY, _array),
    **dict.fromkeys(OBJECT, _object),
    **dict.fromkeys(DEPENDENCIES, _dependencies),
    "allOf": lambda question: all_hold(_options(question, "allOf")),
    "anyOf": lambda question: any_holds(_options(question, "anyOf")),
    "oneOf": lambda question: num_hold(list(_options(question, "oneOf")), 1, 1),
    "not": lambda question: negated(question.fits(question.schema["not"], "not")),
    "if": _if,
    **dict.fromkeys(DYNAMIC, lambda question: None),
}
"""Keyword → its rule. Keywords of one topic share a rule."""
