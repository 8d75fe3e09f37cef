"""Owns the texts behind which the arguments of calls begin, for guards and for deferred
arguments."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from specguide.guided.known.call_texts import CallTexts
from specguide.guided.known.keys import ARGUMENTS_START, JSON_END, TEXT_START, special_token
from specguide.guided.tools.arguments_form import ArgumentsForm
from specguide.guided.tools.call_ends import are_bracketed, are_ended, is_in_no_json
from specguide.guided.tools.formats import ToolFormat, around_id, behind_id, id_beginnings
from specguide.guided.tools.shapes import ObjectShape, names_in

_OPENERS = ("{", "[", '"')


class _Starts(NamedTuple):
    """The fields of CallTexts with these names, but `before` and `gate` as bytes."""

    before: Sequence[bytes]
    ends: str
    gate: bytes = b""
    held: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CallStarts:
    """The texts behind which arguments begin in a format, each as the hexadecimal digits of its
    bytes.

    ids: ids of special tokens by their texts
    """

    tool_format: ToolFormat
    ids: Mapping[str, int]

    def of_call(self, name: str) -> list[str]:
        """The texts in front of a tool's arguments: for a first call, which begins as no other text
        does, and for a later call, which follows another call's arguments."""
        tool_format = self.tool_format
        starts = [self._bytes(tool_format.opening + name + tool_format.before_arguments)]
        if tool_format.separator is not None:
            later = tool_format.after_arguments + tool_format.separator + tool_format.before_name
            starts.append(JSON_END + self._bytes(later + name + tool_format.before_arguments))
        return [start.hex() for start in starts]

    def texts(
        self,
        shapes: Mapping[str, ObjectShape],
        must_call: bool,
        has_answer: bool,
        *,
        are_objects: bool,
    ) -> CallTexts | None:
        """How the calls of a message begin; None where that does not determine the tool.

        shapes:      by tool, how its arguments are written
        are_objects: the schemas of all arguments allow only objects
        """
        lead, _ = around_id(self.tool_format.before_arguments)
        parts = parts_of(lead, self.ids)
        firsts = () if parts else self._firsts()
        if firsts is None or not all(part in self.ids or part.isascii() for part in parts):
            return None
        ends = [*self.ids, *(part[0] for part in parts[:1] if part not in self.ids)]
        if any(end in name for name in shapes for end in ends):
            return None
        starts = (
            self._listed(must_call, has_answer)
            or self._marked(shapes.values())
            or self._gated(list(shapes.values()), must_call, has_answer)
            or self._named_alone(shapes, must_call)
        )
        if starts is None:
            return None
        return CallTexts(
            gate=starts.gate.hex(),
            before=[text.hex() for text in starts.before],
            ends=starts.ends,
            held=starts.held,
            lead=self._bytes(lead).hex(),
            firsts=firsts,
            names=list(shapes),
            num_schemas=int(has_answer),
            after=self._after(are_objects),
        )

    def _firsts(self) -> list[int] | None:
        """The special tokens one of which follows a name, where no text does; None where something
        else may follow."""
        form = self.tool_format.arguments
        after = self.tool_format.after_arguments
        texts = [after] if form is None else [form.before_name, form.if_none + after]
        firsts = [(parts_of(text, self.ids) or [""])[0] for text in texts]
        is_told = form is not None and all(first in self.ids for first in firsts)
        return list(dict.fromkeys(self.ids[first] for first in firsts)) if is_told else None

    def _after(self, are_objects: bool) -> str | None:
        """`after` of CallTexts."""
        one, form = self.tool_format, self.tool_format.arguments
        if around_id(one.before_arguments)[0] != one.before_arguments:
            return id_beginnings(one.before_arguments).hex()
        if form is None:
            return b"{".hex() if are_objects else None
        return self._first_bytes([form.before_name, form.if_none + one.after_arguments])

    def _listed(self, must_call: bool, has_answer: bool) -> _Starts | None:
        """Calls with arguments in JSON and fixed texts between them, where nothing else in a
        message can be taken for their beginning."""
        tool_format = self.tool_format
        if tool_format.arguments is not None or tool_format.ids:
            return None
        if why_in_order(tool_format, self.ids, must_call, has_answer) is not None:
            return None
        is_first = must_call or has_answer
        before = [(TEXT_START if is_first else b"") + self._bytes(tool_format.opening)]
        if tool_format.separator is not None:
            later = tool_format.after_arguments + tool_format.separator + tool_format.before_name
            before.append(JSON_END + self._bytes(later))
        return _Starts(before, "JSON")

    def _marked(self, shapes: Iterable[ObjectShape]) -> _Starts | None:
        """Calls that each begin with a special token of their own. Arguments cannot contain it, so
        their end need not be known."""
        one, form = self.tool_format, self.tool_format.arguments
        if (form is None and not one.ids) or not self._mark:
            return None
        others = [
            *(one.begin, one.before_answer, one.after_answer, one.before_lead, one.after_lead),
            *(one.before_arguments, one.after_arguments, one.separator or "", one.end),
        ]
        if form is not None:
            others += (*(form.text_marks or ()), *form.before_json, *form.item_marks)
            names = {name for shape in shapes for name in names_in(shape)}
            others += (form.before_name + name + form.before_value for name in names)
            others += (form.before_value, form.after_value)
            others += (form.separator, form.if_none)
            others += (*(form.object_marks or ()), *(form.array_marks or ()))
        return _Starts([self._bytes(self._mark)], "SEARCHED") if self._is_in_none(others) else None

    def _is_in_none(self, others: Iterable[str]) -> bool:
        """Whether no other text contains `_mark`, or ends with its beginning."""
        mark = self._mark
        begun = [mark[:end] for end in range(len(parts_of(mark, self.ids)[0]), len(mark))]
        return not any(mark in text or text.endswith(tuple(begun)) for text in others)

    @property
    def _mark(self) -> str:
        """The text in front of a name and behind an id, from its first special token on; "" where
        it has none."""
        parts = parts_of(behind_id(self.tool_format.before_name), self.ids)
        first = next((i for i, part in enumerate(parts) if part in self.ids), len(parts))
        return "".join(parts[first:])

    def _gated(
        self, shapes: Sequence[ObjectShape], must_call: bool, has_answer: bool
    ) -> _Starts | None:
        """Calls with one beginning for all, behind which the ends of arguments can be found."""
        tool_format, form = self.tool_format, self.tool_format.arguments
        gate = self._gate(must_call, has_answer)
        if (
            gate is None
            or around_id(tool_format.before_arguments)[0] != tool_format.before_arguments
        ):
            return None
        head, _ = around_id(tool_format.opening)
        first = (
            TEXT_START
            if head == tool_format.opening
            else self._bytes(behind_id(tool_format.opening))
        )
        between = (
            tool_format.after_arguments + (tool_format.separator or "") + tool_format.before_name
        )
        if form is None:
            later = _behind_ids(between)
            mark = b"" if later != between else JSON_END
            starts = _Starts([first, mark + self._bytes(later)], "JSON", gate)
            return starts if later else None
        if tool_format.ids:
            return None
        if are_bracketed(tool_format, form, shapes):
            behind = between.removeprefix(tool_format.after_arguments[0])
            return _Starts([first, JSON_END + self._bytes(behind)], "BRACKETED", gate)
        if are_ended(form, between, shapes, self.ids):
            ends = [ARGUMENTS_START + self._bytes(form.if_none), self._bytes(form.after_value)]
            before = [first, *(end + self._bytes(between) for end in ends)]
            return _Starts(before, "SEARCHED", gate, self._held_marks(form))
        return None

    def _held_marks(self, form: ArgumentsForm) -> dict[str, Any] | None:
        """`held` of CallTexts."""
        if form.other_text_marks is None:
            return None
        begin, end = form.other_text_marks
        marks = {
            "behind_name": form.before_value,
            "begin": begin,
            "end": end,
            "after": form.after_value,
        }
        before = [ARGUMENTS_START, self._bytes(form.after_value)]
        return {
            "before": [(one + self._bytes(form.before_name)).hex() for one in before],
            **{name: self._bytes(text).hex() for name, text in marks.items()},
        }

    def _named_alone(self, names: Iterable[str], must_call: bool) -> _Starts | None:
        """Calls with arguments in JSON that begin with only a name: at the start of a message whose
        text begins otherwise, and behind a mark that ends text and arguments and is in neither."""
        one, mark = self.tool_format, self.tool_format.separator
        if one.arguments is not None or one.opening or one.ids or one.after_arguments or not mark:
            return None
        if mark in self.ids or one.after_lead != mark or one.before_lead != one.before_answer:
            return None
        heads = [name + one.before_arguments for name in names]
        text = one.before_answer
        are_told = must_call or not any(
            head.startswith(text) or text.startswith(head) for head in heads
        )
        if not are_told or not all(is_in_no_json(mark + head, self.ids) for head in heads):
            return None
        return _Starts([TEXT_START, self._bytes(mark)], "JSON")

    def _gate(self, must_call: bool, has_answer: bool) -> bytes | None:
        """The text with which all messages with calls begin, up to the first name or an id before
        it; None where other text may contain it, too."""
        tool_format = self.tool_format
        head, _ = around_id(tool_format.opening)
        first = (parts_of(head, self.ids) or [""])[0]
        if first in self.ids:
            others = (
                tool_format.before_answer,
                tool_format.after_answer,
                tool_format.before_lead,
                tool_format.after_lead,
            )
            return self._bytes(head) if not any(first in other for other in others) else None
        if not first or tool_format.is_marked:
            return None
        if must_call or (has_answer and first.startswith("<")):  # JSON does not begin so
            return TEXT_START + self._bytes(head)
        return (
            self._bytes(head) if not has_answer and head.startswith(tool_format.trigger) else None
        )

    def _first_bytes(self, texts: Sequence[str]) -> str | None:
        """The first bytes of those texts that do not begin with a special token; None where a text
        is empty."""
        if not all(texts):
            return None
        firsts = [parts_of(text, self.ids)[0] for text in texts]
        first_bytes = {first.encode()[:1] for first in firsts if first not in self.ids}
        return b"".join(sorted(first_bytes)).hex()

    def of_answer(self) -> list[str]:
        """The text in front of an answer's JSON."""
        return [(TEXT_START + self._bytes(self.tool_format.before_answer)).hex()]

    def _bytes(self, text: str) -> bytes:
        return b"".join(
            special_token(self.ids[part]) if part in self.ids else part.encode()
            for part in parts_of(text, self.ids)
        )


def _behind_ids(text: str) -> str:
    """The part of a text behind the last of its IDS; the whole text where it has none."""
    while behind_id(text) != text:
        text = behind_id(text)
    return text


def why_in_order(
    tool_format: ToolFormat, special: Container[str], must_call: bool, has_answer: bool
) -> str | None:
    """The reason why keys must be in the schema's order in a format; None where they can be in any
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
    """The parts of a text: each mark in it is a part of its own."""
    known = [mark for mark in marks if mark in text]
    parts = [text]
    for mark in known:
        parts = [
            piece for part in parts for piece in ([part] if part in known else _split(part, mark))
        ]
    return [part for part in parts if part]


def _split(text: str, mark: str) -> list[str]:
    """The parts of a text: each `mark` in it is a part of its own."""
    first, *others = text.split(mark)
    return [first, *(part for other in others for part in (mark, other))]
