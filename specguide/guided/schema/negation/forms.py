"""Owns forms, which replace the negations in a schema: descriptions of the values that fail a
subschema.

A form that the core can express at once is a core node. Other forms contain subschemas that are not
lowered yet. Only lowering finds out whether the core can express a form, so a form that may be
refused includes what to do in that case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guided.quick import quick
from specguide.guided.schema.core.nodes import Node
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import Json


@quick
@dataclass(frozen=True)
class Given:
    """The instances of a subschema of the user's schema."""

    schema: Json
    place: Place


@quick
@dataclass(frozen=True)
class Refused:
    """Values that the core cannot express, with the error that says why."""

    error: InvalidGuide


@quick
@dataclass(frozen=True)
class Way:
    """The ways to fail one keyword. Those behind a refused one are dropped."""

    keyword: str
    forms: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class Failure:
    """The values that fail a subschema: they fail at least one of its keywords.

    path:     the subschema's JSON pointer
    ways:     a choice; refused ones are dropped from it
    unspoken: the errors of keywords without a way

    If something is dropped, and the rest constrains only types, the whole form is refused.
    """

    path: str
    ways: tuple[Way, ...]
    unspoken: tuple[UnsupportedGuide, ...]


@quick
@dataclass(frozen=True)
class FailedReference:
    """The values that fail a referenced subschema. path: of the reference; target: of the
    subschema"""

    path: str
    target: str


@quick
@dataclass(frozen=True)
class Every:
    """The conjunction of the parts."""

    path: str
    parts: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class Choice:
    """The disjunction of the parts."""

    path: str
    parts: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class OtherWords:
    """Every string except some words. keyword: the one that lists them"""

    path: str
    keyword: str
    words: frozenset[str]


@quick
@dataclass(frozen=True)
class OtherStrings:
    """Every string that a pattern does not match."""

    path: str
    pattern: str


@quick
@dataclass(frozen=True)
class WithProperty:
    """Objects with a property `name` of this form."""

    path: str
    name: str
    form: Form


@quick
@dataclass(frozen=True)
class OnlyMatching:
    """Objects with one or more properties, all of this form and with names that a pattern
    matches."""

    path: str
    pattern: str
    form: Form


@quick
@dataclass(frozen=True)
class OnlyUnnamed:
    """Objects with one or more properties, all of this form, and with names that neither are among
    `names` nor match a pattern."""

    path: str
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    form: Form


@quick
@dataclass(frozen=True)
class WithUnnamed:
    """Objects with a property of this form, whose name neither is among `names` nor matches a
    pattern."""

    path: str
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    form: Form


@quick
@dataclass(frozen=True)
class OnlyNames:
    """Objects with one or more properties, whose names are all of this form."""

    place: Place
    form: Form


@quick
@dataclass(frozen=True)
class WithItem:
    """Arrays with an item of this form at `index`."""

    path: str
    index: int
    form: Form


@quick
@dataclass(frozen=True)
class OnlyItems:
    """Arrays with only items of this form."""

    path: str
    form: Form


@quick
@dataclass(frozen=True)
class Branch:
    """The instances of one branch of a `oneOf` that fail its rivals, the branches that may have
    instances in common with it."""

    given: Given
    failed_rivals: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class Conditional:
    """The values that meet a condition and `then`, or fail it and meet `otherwise`. Where the
    condition's failure is refused, the latter become the values that meet both `then` and
    `otherwise`, which need no condition."""

    path: str
    condition: Given
    then: Given
    otherwise: Given
    failed: Form


Form: TypeAlias = (
    "Node | bool | Given | Refused | Failure | FailedReference | Every | Choice | OtherWords"
    " | OtherStrings | WithProperty | OnlyMatching | OnlyUnnamed | WithUnnamed | OnlyNames"
    " | WithItem | OnlyItems | Branch | Conditional"
)
"""A core node, or one of the forms above; True allows every value, False none."""
