"""Owns what stands in a schema for its negations: forms, which say in positive words what fails a
subschema.

Where a core node says it, the form is that node. Other forms hold subschemas that are not in the
core yet. Whether the core can say a form is found when it is lowered; so a form that may be refused
has beside it what to do then.
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
    """The instances of a subschema as it was given."""

    schema: Json
    place: Place


@quick
@dataclass(frozen=True)
class Refused:
    """What cannot be said at all, and why."""

    error: InvalidGuide


@quick
@dataclass(frozen=True)
class Way:
    """The ways to fail one keyword. The first that is refused ends them."""

    keyword: str
    forms: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class Failure:
    """What fails a subschema, which is a conjunction of keywords: what fails one of them at least.

    path:     its JSON pointer
    ways:     a choice; those that are refused are left out of it
    unspoken: why other keywords are left out of the choice

    Where something is left out and the rest tells values by their types alone, all is refused.
    """

    path: str
    ways: tuple[Way, ...]
    unspoken: tuple[UnsupportedGuide, ...]


@quick
@dataclass(frozen=True)
class FailedReference:
    """What fails a subschema that is referred to. path: of the reference; target: of the
    subschema"""

    path: str
    target: str


@quick
@dataclass(frozen=True)
class Every:
    """Instances of all the parts."""

    path: str
    parts: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class Choice:
    """Instances of any of the parts."""

    path: str
    parts: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class OtherWords:
    """Any string but some. keyword: that lists them"""

    path: str
    keyword: str
    words: frozenset[str]


@quick
@dataclass(frozen=True)
class OtherStrings:
    """Any string that a pattern does not match."""

    path: str
    pattern: str


@quick
@dataclass(frozen=True)
class WithProperty:
    """Objects that have a property of this form."""

    path: str
    name: str
    form: Form


@quick
@dataclass(frozen=True)
class OnlyMatching:
    """Objects of properties of this form alone, one at least, whose names a pattern matches."""

    path: str
    pattern: str
    form: Form


@quick
@dataclass(frozen=True)
class OnlyUnnamed:
    """Objects of properties of this form alone, one at least, which have none of the names, and
    which no pattern matches."""

    path: str
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    form: Form


@quick
@dataclass(frozen=True)
class WithUnnamed:
    """Objects that have a property of this form, which is none of the names, and which no pattern
    matches."""

    path: str
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    form: Form


@quick
@dataclass(frozen=True)
class OnlyNames:
    """Objects of properties alone, one at least, whose names are of this form."""

    place: Place
    form: Form


@quick
@dataclass(frozen=True)
class WithItem:
    """Arrays whose item at `index` is of this form."""

    path: str
    index: int
    form: Form


@quick
@dataclass(frozen=True)
class OnlyItems:
    """Arrays whose items are all of this form."""

    path: str
    form: Form


@quick
@dataclass(frozen=True)
class Branch:
    """The instances of one branch of a `oneOf` that fail its rivals: those with which it may share
    instances."""

    given: Given
    failed_rivals: tuple[Form, ...]


@quick
@dataclass(frozen=True)
class Conditional:
    """What meets a condition and `then`, or fails it and meets `otherwise`. Where its failure is
    refused, what meets both stands for that: right whether or not the condition holds."""

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
"""A core node, or one of the forms here; True stands for any value, False for none."""
