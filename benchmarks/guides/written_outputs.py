"""Random outputs that are written part by part, so that it is known of each byte what it is of.

They have what readers stumble over: marks that break off, quotes, braces and newlines in texts,
escapes, keys that a JSON pointer escapes, and JSON with spaces or without.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from benchmarks.guides.random_json import random_value
from benchmarks.guides.written_arguments import ArgumentWriter, random_shapes
from benchmarks.guides.written_parts import Written, random_text, written_json
from specguide.guide import Guide
from specguide.guided.reading import OutputForm, Part, ReasoningMarks
from specguide.guided.reading.spelled import mark_bytes
from specguide.guided.tools import CallLayout, ToolFormat, tool_formats
from specguide.guided.tools.formats import with_id

_THINK, _THOUGHT, _RESUMED = "<think>", "</think>", "<start>assistant"
_TOOLS = {"get.weather": ("city", "name"), "time": (), "f": ("name",)}
"""By name the arguments that are texts."""
_ANY = {"type": "json_schema", "json_schema": {}}
_TAGS: list[dict[str, Any]] = [
    {"begin": "<f=get>", "content": _ANY, "end": ["</f>", "<done>"]},
    {"begin": "<f=put>\n", "content": _ANY, "end": "\n</f>"},
    {"begin": "<note>", "content": {"type": "any_text"}, "end": "</note>"},
]


def kinds() -> list[str]:
    """The kinds of outputs: JSON, structural tags, or calls in a family's format."""
    return ["json", "tags", *tool_formats()]


def written(kind: str, rng: random.Random) -> Written:
    """A random output of a kind, its marks special tokens or text, perhaps behind reasoning."""
    has_specials = rng.random() < 0.5
    one = tool_formats().get(kind)
    marks = (_THINK, _THOUGHT, "<start>", *(one.special_tokens if one else ()))
    ids = {mark: 300 + number for number, mark in enumerate(marks)} if has_specials else {}
    layout = None
    if one is not None:
        must_call, has_answer = rng.choice(((True, False), (False, True), (False, False)))
        layout = CallLayout(one, ids, random_shapes(one, _TOOLS, rng), must_call, has_answer)
    made = Written(OutputForm(_marks(ids, rng), layout, kind == "json"))
    if made.form.reasoning is not None:
        _reason(made, made.form.reasoning, rng)
    if kind == "tags":
        _tags(made, rng)
    elif layout is None:
        made.text = written_json(made, Part("content", "value", ""), random_value(rng, 3), rng)
    else:
        _Message(made, layout, rng).write()
    return made


def _marks(ids: Mapping[str, int], rng: random.Random) -> ReasoningMarks | None:
    """Marks of no reasoning, of reasoning that the prompt begins, or of reasoning that the output
    begins."""
    end = mark_bytes(rng.choice((_THOUGHT, _THOUGHT + _RESUMED)), ids)
    begun, begins = ReasoningMarks(end), ReasoningMarks(end, mark_bytes(_THINK, ids))
    return rng.choice((None, None, begun, begins))


def _reason(made: Written, marks: ReasoningMarks, rng: random.Random) -> None:
    breaks = b"\n" * rng.randrange(3)
    made.add(Part("reasoning", "punctuation"), (marks.begin or b"") + breaks)
    made.reasoning = random_text(rng, marks.end).lstrip("\n")
    made.add(Part("reasoning", "text"), made.reasoning.encode())
    made.add(Part("reasoning", "punctuation"), marks.end)
    made.add(Part("content", "punctuation"), b"\n" * rng.randrange(3))


def _tags(made: Written, rng: random.Random) -> None:
    """Tags behind free text, or with a separator."""
    is_free = rng.random() < 0.5
    separated = {"type": "tags_with_separator", "separator": "; ", "tags": _TAGS}
    triggered = {"type": "triggered_tags", "triggers": ["<f=", "<note"], "tags": _TAGS}
    form = {"type": "structural_tag", "format": triggered if is_free else separated}
    made.form = made.form.with_tags(Guide(structural_tag=form))
    for number in range(rng.randint(0 if is_free else 1, 3)):
        if is_free:
            _free(made, rng)
        elif number:
            made.add(Part("content", "punctuation"), b"; ")
        tag = rng.choice(_TAGS)
        around = Part("tool", "punctuation", None, tag["begin"], number)
        made.add(around, tag["begin"].encode())
        end = rng.choice(tag["end"]) if isinstance(tag["end"], list) else tag["end"]
        if tag["content"]["type"] == "json_schema":
            written_json(made, around._replace(path=""), random_value(rng, 2), rng)
        else:
            made.add(around._replace(role="text"), random_text(rng, end.encode()).encode())
        made.add(around, end.encode())
    if is_free:
        _free(made, rng)


def _free(made: Written, rng: random.Random) -> None:
    """Free text between tags."""
    text = random_text(rng, b"<f=")
    is_first = all(part.tag != "tool" for part, _ in made.parts)
    has_breaks = is_first and made.form.reasoning is not None
    made.add(Part("content", "text"), (text.lstrip("\n") if has_breaks else text).encode())


class _Message:
    """A message that may have calls."""

    def __init__(self, made: Written, layout: CallLayout, rng: random.Random) -> None:
        self._made, self._layout, self._rng = made, layout, rng
        self._one: ToolFormat = layout.tool_format
        self._writer = ArgumentWriter(made, layout, rng)

    def write(self) -> None:
        """All of it."""
        one, layout = self._one, self._layout
        has_calls = layout.must_call or self._rng.random() < 0.7
        made, mark = self._made, Part("content", "punctuation")
        if one.is_marked and not has_calls:
            made.add(mark, self._mark(one.before_answer))
        if layout.has_answer and not has_calls:
            place = Part("content", "value", "")
            made.text = written_json(made, place, random_value(self._rng, 3), self._rng)
        elif not layout.must_call and not layout.has_answer:
            self._lead(has_calls)
        elif one.begins_inside:
            made.add(mark, self._mark(one.after_lead))
        if has_calls:
            self._calls()
        else:
            made.add(mark, self._mark(one.after_answer))

    def _mark(self, text: str) -> bytes:
        return mark_bytes(text, self._layout.special_ids)

    def _lead(self, has_calls: bool) -> None:
        """Free text, in front of calls or alone."""
        one, made = self._one, self._made
        is_marked = one.is_marked and has_calls
        is_left_out = not one.has_lead or (bool(one.before_lead) and self._rng.random() < 0.5)
        if is_marked and is_left_out:
            return
        end = one.after_lead if one.is_marked and one.has_lead else one.after_answer or one.trigger
        text = random_text(self._rng, self._mark(end))
        is_first = not one.before_answer
        made.text = self._unbroken(text) if is_first else text
        if is_marked:
            made.add(Part("content", "punctuation"), self._mark(one.before_lead))
        made.add(Part("content", "text"), made.text.encode())
        if is_marked:
            made.add(Part("content", "punctuation"), self._mark(one.after_lead))

    def _unbroken(self, text: str) -> str:
        """The text without the line breaks with which a text behind reasoning does not begin."""
        return text if self._made.form.reasoning is None else text.lstrip("\n")

    def _calls(self) -> None:
        one, made = self._one, self._made
        num_calls = 1 if one.separator is None else self._rng.randint(1, 3)
        for call in range(num_calls):
            name = self._rng.choice(list(_TOOLS))
            around = Part("tool", "punctuation", None, name, call)
            before = one.opening if call == 0 else (one.separator or "") + one.before_name
            made.add(around, self._mark(with_id(before, call)))
            made.add(around._replace(role="name"), name.encode())
            made.add(around, self._mark(with_id(one.before_arguments, call)))
            made.calls.append((name, self._writer.write(around, self._layout.arguments[name])))
        made.add(Part("content", "punctuation"), self._mark(one.end))
