"""Owns what is known of an output before it is written: the marks of its reasoning, and the
structure that its guide fixes behind that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from specguide.guide import Guide
from specguide.guided.reading.spelled import shown_bytes, special_bytes
from specguide.guided.reading.tags import TagLayout, tag_layout
from specguide.guided.tools.layout import CallLayout, SpecialToken
from specguide.guided.wrappers.reasoning import mark_parts
from specguide.params import SamplingParams

_JSON_KINDS = ("json_schema", "json_object")


@dataclass(frozen=True)
class ReasoningMarks:
    """The marks of the reasoning section with which an output begins, as bytes of SpelledTokens.

    end:    the mark behind the section
    begin:  None where the prompt has begun the section; else only an output that begins with it has
            one
    answer: the mark before the answer of an output without the section; not a part of the answer
    cut_by: begins a call, and ends the section, too; empty: there is none
    """

    end: bytes
    begin: bytes | None = None
    answer: bytes = b""
    cut_by: bytes = b""

    @classmethod
    def of(
        cls, end: str, begin: str | None, answer: str, special: SpecialToken, cut_by: str = ""
    ) -> ReasoningMarks:
        """The marks with these texts. special: recognizes special tokens"""
        begun = None if begin is None else spelled_mark(begin, special)
        others = spelled_mark(answer, special), spelled_mark(cut_by, special)
        return cls(spelled_mark(end, special), begun, *others)


def spelled_mark(text: str, special: SpecialToken) -> bytes:
    """A mark as bytes of SpelledTokens. special: recognizes special tokens"""
    parts = ((special(part), part) for part in mark_parts(text, special))
    return b"".join(
        part.encode() if token is None else special_bytes(token) for token, part in parts
    )


@dataclass(frozen=True)
class OutputForm:
    """What is known of one output before it is written.

    reasoning: the marks of its reasoning; None where none is read
    calls:     the layout of its calls; None where no tools are called
    is_json:   without calls, the output behind the reasoning is JSON
    after:     the mark behind the text; empty: there is none
    names:     what special tokens add to the text, if they are no marks; empty: nothing
    tags:      structural tags behind the reasoning; None: there are none, or nobody asks for their
               parts
    """

    reasoning: ReasoningMarks | None = None
    calls: CallLayout | None = None
    is_json: bool = False
    after: bytes = b""
    tags: TagLayout | None = None
    names: Mapping[int, bytes] = field(default_factory=dict)

    def show(self, data: bytes) -> bytes:
        """What is shown of the text's bytes."""
        return shown_bytes(data, self.names)

    @classmethod
    def of(cls, guide: Guide | None, reasoning: ReasoningMarks | None) -> OutputForm:
        """The form of an output of a guide."""
        if guide is None:
            return cls(reasoning)
        return cls(reasoning, guide.layout, guide.kind in _JSON_KINDS)

    def with_tags(self, guide: Guide | None) -> OutputForm:
        """This form, with the layout of a guide's structural tags."""
        if guide is None or guide.kind != "structural_tag":
            return self
        form = json.loads(guide.source())["format"]
        is_json = form["type"] == "json_schema" and form.get("style", "json") == "json"
        return replace(self, is_json=is_json, tags=tag_layout(form))

    @classmethod
    def asked(cls, params: SamplingParams, special: SpecialToken) -> OutputForm:
        """The form of a request's outputs."""
        marks = params.reasoning
        if marks is None:
            return cls.of(params.guide, None).with_tags(params.guide)
        others = marks.instead or "", special, marks.cut_by or ""
        reasoning = ReasoningMarks.of(marks.end, marks.begin, *others)
        return cls.of(params.guide, reasoning).with_tags(params.guide)
