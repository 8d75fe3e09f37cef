"""Owns the decision how the end of a call's arguments can be found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specguide.guided.tools.argument_schemas import listed_of
from specguide.guided.tools.arguments_form import ArgumentsForm
from specguide.guided.tools.formats import ToolFormat
from specguide.guided.tools.shapes import ObjectShape, TextShape, leaves

_PAIRS = ("()", "[]", "{}")
_NEVER_PLAIN = "()[]{}'\"\\"
_BEHIND_STRINGS = " \t\r\n,:]}"
"""The characters that may follow a string in JSON."""


def are_bracketed(one: ToolFormat, form: ArgumentsForm, shapes: Sequence[ObjectShape]) -> bool:
    """Whether arguments are in brackets, and all brackets in them are paired, or in JSON's strings
    or single quotes."""
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


def are_ended(
    form: ArgumentsForm, between: str, shapes: Sequence[ObjectShape], special: Iterable[str]
) -> bool:
    """Whether each argument ends with a text that no other text contains, except texts with marks
    of their own, and calls begin only behind that end or behind empty arguments. between: the text
    between the arguments of two calls, up to the later one's name"""
    end, marks = form.after_value, form.text_marks
    is_plain = (
        (marks is None or not marks[1])
        and (form.has_literals or form.object_marks is form.array_marks is None)
        and not form.separator
        and "{name}" not in end
    )
    if not is_plain or not end or not (form.before_name and is_in_no_json(end + between, special)):
        return False
    if any(end in member.name for shape in shapes for member in shape.members):
        return False
    return form.other_text_marks is None or _are_distinct(form, form.other_text_marks, shapes)


def _are_distinct(form: ArgumentsForm, marks: Sequence[str], shapes: Sequence[ObjectShape]) -> bool:
    """Whether no JSON contains the text from an argument's end up to one of these marks, and only
    texts between such marks begin as the mark does. No literal contains such a mark."""
    head, (begin, end) = form.before_name, marks
    if not (begin and end and head.find('"') == len(head) - 1 and any(c in head for c in "<>/")):
        return False
    for member in (member for shape in shapes for member in shape.members):
        texts = [leaf for leaf in leaves(member.shape) if isinstance(leaf, TextShape)]
        if texts and any(sign in member.name for sign in (*_BEHIND_STRINGS, form.after_value[0])):
            return False
        if any(
            str(value).startswith(begin[0]) for text in texts for value in listed_of(text.schema)
        ):
            return False
    return True


def is_in_no_json(text: str, special: Iterable[str]) -> bool:
    """Whether no JSON and no Python literal contains a text: it has a special token, or characters
    that only strings contain and a line end behind these, which strings do not contain."""
    if any(mark in text for mark in special):
        return True
    inside, newline, _ = text.rpartition("\n")
    behind = inside.rpartition('"')[2].rpartition("'")[2]
    return bool(newline) and any(sign in behind for sign in "<>/")
