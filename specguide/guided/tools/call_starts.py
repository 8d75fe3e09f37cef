"""Owns the texts behind which the arguments of calls begin, for a guard of their keys."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from specguide.guided.known.call_texts import CallTexts
from specguide.guided.known.keys import JSON_END, TEXT_START, special_token
from specguide.guided.tools.formats import ToolFormat, around_id, behind_id, id_beginnings

_OPENERS = ("{", "[", '"')


@dataclass(frozen=True)
class CallStarts:
    """The texts behind which arguments begin in a format, each as the hexadecimal digits of its
    bytes.

    ids: the ids of special tokens, by their texts
    """

    tool_format: ToolFormat
    ids: Mapping[str, int]

    def of_call(self, name: str) -> list[str]:
        """The texts in front of a tool's arguments: one of a first call, which begins as no other
        text does, and one of a later call, which follows another call's arguments."""
        one = self.tool_format
        starts = [self._bytes(one.opening + name + one.before_arguments)]
        if one.separator is not None:
            later = one.after_arguments + one.separator + one.before_name
            starts.append(JSON_END + self._bytes(later + name + one.before_arguments))
        return [start.hex() for start in starts]

    @property
    def are_marked(self) -> bool:
        """Whether a special token of their own is what calls are found by: what stands between
        them is not fixed where they have ids, and where arguments end is not told but of JSON."""
        return self.tool_format.arguments is not None or bool(self.tool_format.ids)

    def texts(self, names: Sequence[str], must_call: bool, has_answer: bool) -> CallTexts | None:
        """How the calls of a message begin; None where that does not tell their tools."""
        one = self.tool_format
        lead = parts_of(around_id(one.before_arguments)[0], self.ids)
        if not all(part in self.ids or part.isascii() for part in lead):
            return None
        if not lead or not self._are_told(must_call, has_answer):
            return None
        ends = [*self.ids, *(() if lead[0] in self.ids else lead[0][0])]
        if len(set(names)) < len(names) or any(end in name for name in names for end in ends):
            return None
        if self.are_marked:
            return self._marked_texts(names, int(has_answer))
        is_first = must_call or has_answer
        later = None
        if one.separator is not None:
            later = JSON_END + self._bytes(one.after_arguments + one.separator + one.before_name)
        return CallTexts(
            opening=((TEXT_START if is_first else b"") + self._bytes(one.opening)).hex(),
            later=None if later is None else later.hex(),
            lead=self._bytes(one.before_arguments).hex(),
            names=list(names),
            num_schemas=int(has_answer),
        )

    def _are_told(self, must_call: bool, has_answer: bool) -> bool:
        """Whether no other text of a message can be taken for the beginning of a call."""
        one, form = self.tool_format, self.tool_format.arguments
        if not self.are_marked:
            return why_in_order(one, self.ids, must_call, has_answer) is None
        others = [
            *(one.begin, one.before_answer, one.after_answer, one.before_lead, one.after_lead),
            *(one.before_arguments, one.after_arguments, one.separator or "", one.end),
        ]
        if form is not None:
            others += (*(form.text_marks or ()), *form.before_json, *form.item_marks)
            others += (form.before_name, form.before_value, form.after_value)
            others += (form.separator, form.if_none)
            others += (*(form.object_marks or ()), *(form.array_marks or ()))
        return self._is_in_none(others)

    def _is_in_none(self, others: Iterable[str]) -> bool:
        """Whether `_mark` is in no other text, and does not begin at the end of one."""
        mark = self._mark
        if not mark:
            return False
        begun = [mark[:end] for end in range(len(parts_of(mark, self.ids)[0]), len(mark))]
        return not any(mark in text or text.endswith(tuple(begun)) for text in others)

    @property
    def _mark(self) -> str:
        """What stands in front of a name, behind an id, from the first special token on; "" where
        there is none."""
        parts = parts_of(behind_id(self.tool_format.before_name), self.ids)
        first = next((i for i, part in enumerate(parts) if part in self.ids), len(parts))
        return "".join(parts[first:])

    def _marked_texts(self, names: Sequence[str], num_schemas: int) -> CallTexts:
        """The same as `texts`, where a call begins with a special token of its own. Such a token is
        in no argument, so that the end of these need not be known."""
        one, form = self.tool_format, self.tool_format.arguments
        lead, _ = around_id(one.before_arguments)
        after = None
        if lead != one.before_arguments:
            after = id_beginnings(one.before_arguments).hex()
        elif form is not None:
            after = self._first_bytes([form.before_name, form.if_none + one.after_arguments])
        return CallTexts(
            opening=self._bytes(self._mark).hex(),
            later=None,
            lead=self._bytes(lead).hex(),
            names=list(names),
            num_schemas=num_schemas,
            after=after,
        )

    def _first_bytes(self, texts: Sequence[str]) -> str | None:
        """The bytes with which texts begin that do not begin with a special token; None where a
        text is empty."""
        if not all(texts):
            return None
        firsts = [parts_of(text, self.ids)[0] for text in texts]
        found = {first.encode()[:1] for first in firsts if first not in self.ids}
        return b"".join(sorted(found)).hex()

    def of_answer(self) -> list[str]:
        """The texts in front of an answer's JSON."""
        return [(TEXT_START + self._bytes(self.tool_format.before_answer)).hex()]

    def _bytes(self, text: str) -> bytes:
        return b"".join(
            special_token(self.ids[part]) if part in self.ids else part.encode()
            for part in parts_of(text, self.ids)
        )


def why_in_order(
    tool_format: ToolFormat, special: Container[str], must_call: bool, has_answer: bool
) -> str | None:
    """The reason why keys come in the schema's order in a format; None where they can come in any
    order."""
    if tool_format.arguments is not None:
        return "their arguments are written one by one, and not as JSON"
    if tool_format.ids:
        return "their calls have ids"
    if not tool_format.opening:
        return "their calls begin with a name alone"
    if must_call or parts_of(tool_format.opening, _marks(tool_format, special))[0] in special:
        return None
    if has_answer and tool_format.opening.startswith(_OPENERS):
        return "a call begins as an answer may"
    return "an answer may hold what begins a call" if tool_format.is_marked else None


def _marks(tool_format: ToolFormat, special: Container[str]) -> list[str]:
    return [mark for mark in tool_format.special_tokens if mark in special]


def parts_of(text: str, marks: Iterable[str]) -> list[str]:
    """A text in parts, each of the marks in it a part of its own."""
    known = [mark for mark in marks if mark in text]
    parts = [text]
    for mark in known:
        parts = [
            piece for part in parts for piece in ([part] if part in known else _split(part, mark))
        ]
    return [part for part in parts if part]


def _split(text: str, mark: str) -> list[str]:
    """A text in parts, each `mark` in it a part of its own."""
    first, *others = text.split(mark)
    return [first, *(part for other in others for part in (mark, other))]
