"""Owns what a grammar backend can do with core schemas, as data: one object per backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from specguide.guided.regex.charset import Ranges
from specguide.guided.schema.core.keywords import UNIQUE_ITEMS
from specguide.guided.schema.core.nodes import Node

Condition = Callable[[Node], str | None]
"""Why a backend does not enforce the keyword in this subschema, or None where it does."""


class Level(Enum):
    """What a backend does with a keyword."""

    ENFORCED = "enforced"
    PARTIAL = "enforced in some forms, ignored or refused in others"
    IGNORED = "ignored silently"
    REFUSED = "refused with an error"


@dataclass(frozen=True)
class Support:
    """What a backend does with one keyword; `unless` is the condition of a keyword that is enforced
    in some forms only."""

    level: Level
    unless: Condition | None = None

    @property
    def is_certain(self) -> bool:
        """Whether no form of the keyword is left out that the core has."""
        return self.unless is None and self.level in (Level.ENFORCED, Level.PARTIAL)


@dataclass(frozen=True)
class Capabilities:
    """What a backend enforces of core schemas.

    keywords:          what it does with each keyword, as it was measured; keywords that are not
                       here are annotations
    characters:        what a `pattern` may match: a backend that does not write escapes needs
                       strings without them
    has_open_objects:  it keeps properties that an object does not name apart from those that it
                       names; where it does not, objects that name properties take no others
    counts_characters: it counts the characters of strings as JSON Schema does; where it does not,
                       lengths become patterns
    merges_fractions:  it tells numbers that are no integers in merged schemas alone
    frees_keys:        it can write objects whose keys come in any order, for a guard to count them
    counts_keys:       the keys come in any order, and are counted
    """

    keywords: Mapping[str, Support]
    characters: Ranges
    has_open_objects: bool
    counts_characters: bool
    merges_fractions: bool
    frees_keys: bool = False
    counts_keys: bool = False

    @cached_property
    def doubtful(self) -> Mapping[str, Support]:
        """The keywords of which it is not certain that they are enforced."""
        known = self.keywords.items()
        found = {keyword: support for keyword, support in known if not support.is_certain}
        found.pop("not", None)  # numbers that are no integers, for which there are rules of our own
        return found

    @property
    def tells_items_apart(self) -> bool:
        """Whether `uniqueItems` is enforced beside the grammar."""
        return self.keywords[UNIQUE_ITEMS].level is Level.ENFORCED

    def with_guard(self) -> Capabilities:
        """The capabilities with a guard that follows the arrays of a text."""
        return replace(self, keywords={**self.keywords, UNIQUE_ITEMS: Support(Level.ENFORCED)})

    def with_free_keys(self) -> Capabilities:
        """The capabilities with a guard that sees to the keys of objects."""
        counted = dict.fromkeys(_OF_KEYS, Support(Level.ENFORCED))
        return replace(self, keywords={**self.keywords, **counted}, counts_keys=True)


_OF_KEYS = ("minProperties", "maxProperties", "patternProperties")


def unnamed_may_repeat(node: Node) -> str | None:
    """Libraries let properties that are named nowhere repeat, and count them every time."""
    asked = node.kinds.objects
    if (asked.min_properties or 0) - len(asked.required) <= 1 or asked.is_closed:
        return None
    return "properties that are not named may repeat, and each time they are counted"
