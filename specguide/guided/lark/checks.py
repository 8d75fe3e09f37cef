"""Owns the refusal of Lark grammars in which llguidance would not do what they say."""

from __future__ import annotations

from specguide.errors import UnsupportedGuide
from specguide.guided.lark.attributes import lark_attributes
from specguide.guided.lark.lazy import empty_lazy_expression, greedy_lazy_expression

_LASTING = ("max_tokens", "stop")
"""Attributes of rules in whose text llguidance cannot roll tokens back."""


def check_lark(source: str) -> None:
    """Raises UnsupportedGuide where llguidance would read a part of a grammar differently, or could
    not roll tokens back."""
    lasting = dict.fromkeys(
        f"{attribute}=" for attribute in lark_attributes(source) if attribute in _LASTING
    )
    if lasting:
        raise UnsupportedGuide(
            f"{' and '.join(lasting)} of a rule in the Lark grammar cannot be enforced: llguidance "
            "takes none of its tokens back, as drafts need; let its text end by itself, with "
            "suffix= or lazy"
        )
    greedy = greedy_lazy_expression(source)
    if greedy is not None:
        raise UnsupportedGuide(
            f"the lazy repetition in /{greedy}/ in the Lark grammar would take as much as it can; "
            "say what its text cannot hold, as in /[^;]*;/, or give it a rule of its own with the "
            "attribute lazy: name[lazy]: /.*;/"
        )
    empty = empty_lazy_expression(source)
    if empty is not None:
        raise UnsupportedGuide(
            f"a rule with the attribute lazy ends as soon as it can, and /{empty}/ may be empty; "
            "say with what its text ends: name[lazy]: /.*;/"
        )
