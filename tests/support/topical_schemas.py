"""Random schemas about one topic each, of several drafts, and instances near to what they ask."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

NAMES = ("a", "b", "c", "ab", "é")
PATTERNS = ("^a", "b$", "^[a-c]*$", "^.{1,2}$", "^[^a]", "^(?!a)", "^$")
VALUES = (None, True, 0, 1, 2, 1.5, -3, 100, "", "a", "ab", "abc", "b", "é", [], [1], {}, {"a": 1})
NUMBERS = (-3, -0.5, 0, 0.1, 1, 1.5, 2, 10, 99, 100, 10**15)
DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2020: "https://json-schema.org/draft/2020-12/schema",
}

Schema = dict[str, Any]


def some(choose: Random, **keywords: Callable[[], Any]) -> Schema:
    """A few of the keywords, at least one."""
    kept = choose.sample(list(keywords), choose.randint(1, min(4, len(keywords))))
    return {keyword: keywords[keyword]() for keyword in kept}


def scalars(choose: Random) -> Schema:
    """What is asked of values that hold no others."""
    pick = choose.choice
    types = ["string", "integer", "number", "null", "array", "object"]
    return pick(
        (
            {"type": pick(types)},
            {"enum": [*dict.fromkeys(choose.sample(("a", "ab", 0, 1.5, None, "é"), 3))]},
            some(
                choose,
                minLength=lambda: pick((0, 1, 2)),
                maxLength=lambda: pick((0, 1, 3)),
                pattern=lambda: pick(PATTERNS),
            ),
            bounds(choose, 2020),
        )
    )


def bounds(choose: Random, draft: int) -> Schema:
    """Bounds, in draft 4 with its own way to exclude them, and multiples."""
    pick = choose.choice
    asked = some(
        choose,
        type=lambda: pick(("integer", "number")),
        minimum=lambda: pick(NUMBERS),
        maximum=lambda: pick(NUMBERS),
        multipleOf=lambda: pick((1, 2, 7, 0.5, 0.01, 1.5)),
    )
    for keyword, other in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if keyword in asked and choose.random() < 0.4:
            asked[other] = True if draft == 4 else asked.pop(keyword)
    return asked


def numbers(choose: Random, draft: int) -> Schema:
    """Bounds beside others, and the contrary of bounds."""
    word = choose.choice(("allOf", "anyOf", "oneOf", "not"))
    others = [bounds(choose, draft) for _ in range(2)]
    return {**bounds(choose, draft), word: others[0] if word == "not" else others}


def members(choose: Random, draft: int) -> Schema:
    """Objects by their names, and by how many there are."""
    pick = choose.choice
    asked = some(
        choose,
        properties=lambda: {name: scalars(choose) for name in choose.sample(NAMES, 2)},
        patternProperties=lambda: {pick(PATTERNS): scalars(choose)},
        additionalProperties=lambda: pick((False, scalars(choose))),
        required=lambda: choose.sample(NAMES, 1),
        minProperties=lambda: pick((1, 2, 3)),
        maxProperties=lambda: pick((0, 1, 2)),
    )
    if draft > 4 and choose.random() < 0.4:
        counts = {"minLength": pick((0, 1, 2)), "maxLength": pick((1, 2, 3))}
        asked["propertyNames"] = pick(({"pattern": pick(PATTERNS)}, {"enum": ["a", "é"]}, counts))
    return {"type": "object", **asked}


def items(choose: Random, draft: int) -> Schema:
    """Arrays, by their places and by what they contain."""
    pick = choose.choice
    placed = "prefixItems" if draft == 2020 else "items"
    asked = some(
        choose,
        **{placed: lambda: [scalars(choose) for _ in range(2)]},
        contains=lambda: scalars(choose),
        minContains=lambda: pick((0, 1, 2)),
        maxContains=lambda: pick((1, 2)),
        minItems=lambda: pick((1, 2)),
        maxItems=lambda: pick((0, 2, 3)),
        uniqueItems=lambda: True,
    )
    return {"type": "array", **asked}


def conditions(choose: Random, draft: int) -> Schema:
    """Conditions within each other, beside references."""
    asked = {
        "if": members(choose, draft),
        "then": choose.choice((members(choose, draft), {"$ref": "#/definitions/x"})),
        "else": {"if": members(choose, draft), "else": members(choose, draft)},
        "definitions": {"x": members(choose, draft)},
    }
    for keyword in choose.sample(("then", "else"), choose.randint(0, 1)):
        del asked[keyword]
    return asked


TOPICS = (numbers, members, items, conditions)


def topical_schema(choose: Random) -> Schema:
    """A schema about one topic, which names its draft."""
    draft = choose.choice(list(DRAFTS))
    return {"$schema": DRAFTS[draft], **choose.choice(TOPICS)(choose, draft)}


def instance(choose: Random) -> Any:
    """A value, an array or an object of some, with whole numbers as integers."""
    kind = choose.random()
    if kind < 0.3:
        return choose.choice((*VALUES, *NUMBERS))
    if kind < 0.6:
        return [copy.deepcopy(choose.choice(VALUES)) for _ in range(choose.randint(0, 3))]
    names = choose.sample(NAMES, choose.randint(0, 3))
    return {name: copy.deepcopy(choose.choice(VALUES)) for name in names}
