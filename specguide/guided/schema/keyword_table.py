"""Owns the table of what each grammar backend makes of each JSON Schema keyword.

The levels are measured facts about the libraries as they are driven here (xgrammar 0.2.8 without
its strict mode, llguidance 1.9.1 without \\u escapes), each shown by a case of its own in the
tests, which also run the JSON-Schema-Test-Suite. A keyword that is enforced in some forms only has
a condition, which says of a core subschema why the backend would not enforce it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from specguide.guided.regex.parse import UnsupportedRegex, parse
from specguide.guided.regex.writer import is_flat
from specguide.guided.schema.core import Core
from specguide.guided.schema.evaluate import MAX_NAMES, exact, pattern_automaton

Condition = Callable[[Core], str | None]
"""Why a backend does not enforce the keyword in this subschema, or None where it does."""


class Level(Enum):
    """What a backend does with a keyword."""

    ENFORCED = "enforced"
    PARTIAL = "enforced in some forms, ignored or refused in others"
    IGNORED = "ignored silently"
    REFUSED = "refused with an error"


@dataclass(frozen=True)
class Support:
    """A cell of the table; `unless` is the condition of a keyword that is enforced in some forms
    only."""

    level: Level
    unless: Condition | None = None


@dataclass(frozen=True)
class Row:
    """One keyword. `core`: the core has it, so backends meet it; other keywords are rewritten
    before.

    handling: what the rewriting makes of it
    """

    llguidance: Support
    xgrammar: Support
    core: bool = False
    handling: str = "kept"

    def support(self, backend: str) -> Support:
        """The cell of a backend."""
        return self.llguidance if backend == "llguidance" else self.xgrammar


def _repeats(core: Core) -> str | None:
    """llguidance and xgrammar let properties that are named nowhere repeat, and count them every
    time."""
    missing = core["minProperties"] - len(core.get("required", ()))
    closed = core.get("additionalProperties") is False and not core.get("patternProperties")
    if missing <= 1 or closed:
        return None
    return "properties that are not named may repeat, and each time they are counted"


def _may_be_used_up(core: Core) -> str | None:
    """llguidance allows a comma after the last property that there can be, where no name is left
    for any pattern."""
    try:
        endless = any(
            pattern_automaton(pattern).num_texts(MAX_NAMES) > MAX_NAMES
            for pattern in core["patternProperties"]
        )
    except UnsupportedRegex:
        return None
    if endless or core.get("additionalProperties") is not False:
        return None
    return "it stands for a few names, and no other may be left after them"


def _has_siblings(keyword: str) -> Condition:
    """xgrammar looks at one of these keywords and forgets what stands beside it."""

    def unless(core: Core) -> str | None:
        others = sorted(core.keys() - {"$defs", keyword})
        return f"beside {others[0]} it would be all that counts" if others else None

    return unless


def _needs_type(core: Core) -> str | None:
    """xgrammar looks at a type's keywords only where that type is named."""
    return None if "type" in core else "without a type beside it, it would be forgotten"


def _needs_object_type(core: Core) -> str | None:
    return None if "type" in core or "properties" in core else _needs_type(core)


def _told_apart(core: Core) -> str | None:
    """xgrammar keeps unnamed properties apart from named ones by their spelling, and lets escapes
    in."""
    if core["additionalProperties"] is False or not (
        core.get("properties") or core.get("patternProperties")
    ):
        return _needs_object_type(core)
    return "a named property, spelt with an escape, would pass as an unnamed one"


def _flat_pattern(core: Core) -> str | None:
    """xgrammar mistakes patterns in which a repetition stands inside another one or inside an
    alternative."""
    if "pattern" in core and not is_flat(parse(core["pattern"])):
        return "it has a repetition inside a repetition or an alternative"
    return _needs_type(core)


def _patterns_alone(core: Core) -> str | None:
    if not all(is_flat(parse(pattern)) for pattern in core["patternProperties"]):
        return "it has a repetition inside a repetition or an alternative"
    if core.get("properties") or core.get("required") or len(core["patternProperties"]) > 1:
        return "beside named properties or other patterns it would not hold for all that it matches"
    if core.get("additionalProperties") is not False:
        return "what it does not match would not be kept apart"
    return _needs_type(core)


def _named(core: Core) -> str | None:
    missing = [name for name in core["required"] if name not in core.get("properties", {})]
    return (
        f"the property {missing[0]!r} is not among properties"
        if missing
        else _needs_object_type(core)
    )


def _small_multiple(core: Core) -> str | None:
    bounded = core.keys() & {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    if (
        core.get("type") != "integer"
        or bounded
        or not isinstance(core["multipleOf"], int)
        or core["multipleOf"] > 1024
    ):
        return "it is kept for type integer, up to 1024 and without bounds only"
    return None


def _has_many_remainders(core: Core) -> str | None:
    """llguidance's automaton may have a state for each remainder: of 100,000 it takes a second and
    100 MB."""
    scaled = exact(core["multipleOf"])
    while scaled.denominator > 1:
        scaled *= 10
    if scaled <= _MAX_REMAINDERS or (scaled <= 10**18 and str(scaled).strip("0") == "1"):
        return None
    return f"it leaves more than {_MAX_REMAINDERS} remainders, and a grammar needs a state for each"


def _counted(core: Core) -> str | None:
    return _needs_type(core) or (_repeats(core) if "minProperties" in core else None)


def _never(core: Core) -> str:
    return "it would be forgotten or take what is no instance"


_ENFORCED, _IGNORED, _REFUSED = (
    Support(level) for level in (Level.ENFORCED, Level.IGNORED, Level.REFUSED)
)


def _partly(unless: Condition | None = None) -> Support:
    return Support(Level.PARTIAL, unless)


_PATTERN, _CHOICE = "a pattern", "a choice of what fails the condition and what meets it"

_MAX_REMAINDERS = 100_000

KEYWORDS: dict[str, Row] = {
    "type": Row(_ENFORCED, _ENFORCED, core=True),
    "enum": Row(
        _partly(),
        _partly(_has_siblings("enum")),
        core=True,
        handling="values that do not fit the type go",
    ),
    "const": Row(_partly(), _partly(), handling="an enum of one value"),
    "minimum": Row(_ENFORCED, _partly(_needs_type), core=True),
    "maximum": Row(_ENFORCED, _partly(_needs_type), core=True),
    "exclusiveMinimum": Row(
        _ENFORCED, _partly(_needs_type), core=True, handling="draft 4's boolean is spelt out"
    ),
    "exclusiveMaximum": Row(
        _ENFORCED, _partly(_needs_type), core=True, handling="draft 4's boolean is spelt out"
    ),
    "multipleOf": Row(_partly(_has_many_remainders), _partly(_small_multiple), core=True),
    "minLength": Row(
        _ENFORCED, _partly(_never), core=True, handling=f"kept; for xgrammar {_PATTERN}"
    ),
    "maxLength": Row(
        _ENFORCED, _partly(_never), core=True, handling=f"kept; for xgrammar {_PATTERN}"
    ),
    "pattern": Row(
        _partly(), _partly(_flat_pattern), core=True, handling="written anew in one dialect"
    ),
    "format": Row(_partly(), _partly(), handling=_PATTERN),
    "properties": Row(_ENFORCED, _partly(), core=True),
    "patternProperties": Row(
        _partly(_may_be_used_up),
        _partly(_patterns_alone),
        core=True,
        handling="written anew in one dialect; of a few names, properties",
    ),
    "additionalProperties": Row(_ENFORCED, _partly(_told_apart), core=True),
    "required": Row(_ENFORCED, _partly(_named), core=True),
    "minProperties": Row(
        _partly(_repeats), _partly(_counted), core=True, handling="a choice of properties, if few"
    ),
    "maxProperties": Row(_partly(), _partly(_counted), core=True),
    "propertyNames": Row(_REFUSED, _partly(), handling="properties or patternProperties"),
    "items": Row(_ENFORCED, _partly(), core=True, handling="a list of them becomes prefixItems"),
    "prefixItems": Row(_partly(), _ENFORCED, core=True),
    "additionalItems": Row(_partly(), _partly(), handling="items"),
    "minItems": Row(_ENFORCED, _partly(_needs_type), core=True),
    "maxItems": Row(_ENFORCED, _partly(_needs_type), core=True),
    "uniqueItems": Row(
        _REFUSED,
        _IGNORED,
        handling="one item at most, or an enum's items in its order; else refused",
    ),
    "contains": Row(_REFUSED, _IGNORED, handling="the first items"),
    "minContains": Row(_REFUSED, _IGNORED, handling="the first items"),
    "maxContains": Row(_REFUSED, _IGNORED, handling="the items after them fail it"),
    "unevaluatedItems": Row(_REFUSED, _partly(), handling="items"),
    "unevaluatedProperties": Row(_REFUSED, _IGNORED, handling="additionalProperties"),
    "allOf": Row(_ENFORCED, _partly(_never), core=True),
    "anyOf": Row(_ENFORCED, _partly(_has_siblings("anyOf")), core=True),
    "oneOf": Row(
        _partly(),
        _partly(),
        handling="anyOf, each branch without the others where they may overlap",
    ),
    "not": Row(_REFUSED, _IGNORED, handling="a choice of ways to fail"),
    "if": Row(_REFUSED, _IGNORED, handling=_CHOICE),
    "then": Row(_REFUSED, _IGNORED, handling=_CHOICE),
    "else": Row(_REFUSED, _IGNORED, handling=_CHOICE),
    "dependentRequired": Row(_REFUSED, _IGNORED, handling="a choice of its absence and the rest"),
    "dependentSchemas": Row(_REFUSED, _IGNORED, handling="a choice of its absence and the rest"),
    "dependencies": Row(_REFUSED, _IGNORED, handling="a choice of its absence and the rest"),
    "$ref": Row(
        _partly(),
        _partly(_has_siblings("$ref")),
        core=True,
        handling="a root definition; remote: refused",
    ),
    "$dynamicRef": Row(_REFUSED, _IGNORED, handling="refused"),
}
"""Keyword → what becomes of it. Keywords that are not here are annotations, and any backend may
ignore them."""
