"""Owns what tells where the arguments of a call end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specguide.guided.tools.arguments_form import ArgumentsForm
from specguide.guided.tools.formats import ToolFormat
from specguide.guided.tools.shapes import ObjectShape

_PAIRS = ("()", "[]", "{}")
_NEVER_PLAIN = "()[]{}'\"\\"


def are_bracketed(one: ToolFormat, form: ArgumentsForm, shapes: Sequence[ObjectShape]) -> bool:
    """Whether arguments stand between brackets, and all brackets in these are in pairs, or in
    JSON's strings or single quotes."""
    marks = form.text_marks or ("'", "'")
    others = form.before_name, form.before_value, form.after_value, form.separator, form.if_none
    return (
        one.before_arguments[-1:] + one.after_arguments[:1] in _PAIRS
        and tuple(marks) == ("'", "'")
        and form.other_text_marks is form.object_marks is None
        and not any((form.before_json, *form.item_marks))
        and (form.array_marks is None or "".join(form.array_marks) in _PAIRS)
        and not any(
            sign in text for text in (*others, *form.constants.values()) for sign in _NEVER_PLAIN
        )
        and not any(
            sign in member.name
            for shape in shapes
            for member in shape.members
            for sign in _NEVER_PLAIN
        )
    )


def is_in_no_json(text: str, special: Iterable[str]) -> bool:
    """Whether no JSON has a text: it has a special token, or signs that are in strings alone and
    a line's end behind these, which is in no string."""
    if any(mark in text for mark in special):
        return True
    inside, newline, _ = text.rpartition("\n")
    behind = inside.rpartition('"')[2]
    return bool(newline) and any(sign in behind for sign in "<>/")
