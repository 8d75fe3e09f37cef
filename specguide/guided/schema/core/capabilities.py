"""Owns the description of what a grammar backend enforces of core schemas, one object a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from specguide.guided.regex.charset import Ranges
from specguide.guided.schema.core.keywords import UNIQUE_ITEMS
from specguide.guided.schema.core.nodes import Node

Condition = Callable[[Node], str | None]
"""Returns why a backend does not enforce a keyword of this node; None where it does."""


class Level(Enum):
    """What a backend does with a keyword."""

    ENFORCED = "enforced"
    PARTIAL = "enforced in some forms, ignored or refused in others"
    IGNORED = "ignored silently"
    REFUSED = "refused with an error"


@dataclass(frozen=True)
class Support:
    """What a backend does with one keyword. unless: names the forms that it does not enforce"""

    level: Level
    unless: Condition | None = None

    @property
    def is_certain(self) -> bool:
        """Whether every form of the keyword in the core is enforced."""
        return self.unless is None and self.level in (Level.ENFORCED, Level.PARTIAL)


@dataclass(frozen=True)
class Capabilities:
    """What a backend enforces of core schemas.

    keywords:          what it does with each keyword, as measured; other keywords are annotations
    characters:        the characters that a `pattern` may match: a backend that writes no escapes
                       needs strings without them
    has_open_objects:  an object that names properties may have others, and the library keeps the
                       two apart; False: such an object is closed
    counts_characters: it counts the length of strings as JSON Schema does; False: lengths are
                       written as patterns
    merges_fractions:  numbers that are not integers are enforced in merged schemas only
    frees_keys:        it can write objects whose keys come in any order, for a guard to count them
    counts_keys:       the keys come in any order, and are counted
    leaves_counts:     an open object may ask for more properties than can be counted in order: keys
                       in any order are tried for it
    """

    keywords: Mapping[str, Support]
    characters: Ranges
    has_open_objects: bool
    counts_characters: bool
    merges_fractions: bool
    frees_keys: bool = False
    counts_keys: bool = False
    leaves_counts: bool = False

    @cached_property
    def doubtful(self) -> Mapping[str, Support]:
        """The keywords that may not be enforced in every form."""
        known = self.keywords.items()
        doubtful = {keyword: support for keyword, support in known if not support.is_certain}
        doubtful.pop("not", None)  # it only negates constraints of numbers, which have own rules
        return doubtful

    @property
    def tells_items_apart(self) -> bool:
        """Whether a guard beside the grammar enforces `uniqueItems`."""
        return self.keywords[UNIQUE_ITEMS].level is Level.ENFORCED

    def with_guard(self) -> Capabilities:
        """The capabilities together with a guard that follows the arrays of a text."""
        return replace(self, keywords={**self.keywords, UNIQUE_ITEMS: Support(Level.ENFORCED)})

    def with_free_keys(self) -> Capabilities:
        """The capabilities together with a guard that follows the keys of objects."""
        counted = dict.fromkeys(OF_KEYS, Support(Level.ENFORCED))
        return replace(self, keywords={**self.keywords, **counted}, counts_keys=True)


OF_KEYS = ("minProperties", "maxProperties", "patternProperties")
"""The keywords that are enforced in every form where keys are counted."""


def unnamed_may_repeat(node: Node) -> str | None:
    """Libraries let unnamed properties repeat, and count each repetition."""
    objects = node.kinds.objects
    if (objects.min_properties or 0) - len(objects.required) <= 1 or objects.is_closed:
        return None
    return "properties that are not named may repeat, and each time they are counted; name more"
