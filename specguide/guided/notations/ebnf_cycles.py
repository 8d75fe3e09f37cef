"""Owns the check that no rule of an EBNF grammar consists only of itself. Takes linear time.

Such a rule has no text of its own, and xgrammar crashes where one repeats itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from specguide.errors import InvalidGuide
from specguide.guided.notations.grammar_form import ebnf_parts, start_of_name

_NO_SIGNS = str.maketrans("()+", "   ")


def check_cycles(source: str) -> None:
    """Raise InvalidGuide for a rule that leads back to itself through rules each of which is only
    one name, perhaps with a count."""
    names = {name: _only_name(body) for name, body in _rules(source)}
    known: set[str] = set()
    for name in names:
        way: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in known and at not in way:
            way[at] = None
            at = names.get(at)
        if at in way:
            raise InvalidGuide(
                f"the rule {at} of the grammar is nothing but itself again; give it another "
                "alternative, or leave it out",
                param="grammar",
            )
        known.update(way)


def _rules(source: str) -> Iterator[tuple[str, str]]:
    """The names and the bodies of all rules, with a quotation mark for each literal that is not
    empty, and a bracket for each class."""
    bare = "".join(
        text if not sign else sign * (sign != "#" and text != '""')
        for sign, text in ebnf_parts(source)
    )
    *heads, last = bare.split("::=")
    ends = [*map(start_of_name, heads), len(last)]
    for head, start, body, end in zip(heads, ends, [*heads[1:], last], ends[1:], strict=False):
        yield head[start:].strip(), body[:end]


def _only_name(body: str) -> str | None:
    """The name of which a rule consists, without count and brackets; None for other rules."""
    first, *counted = body.translate(_NO_SIGNS).split("{")
    words = "".join([first, *(part.partition("}")[2] for part in counted)]).split()
    return words[0] if len(words) == 1 and not set(words[0]) & set('|*?"[') else None
