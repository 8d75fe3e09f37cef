"""Keys in any order inside structural tags."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from specguide.bench.instances import BYTES, takes
from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
NEEDY = {"type": "object", "required": ["a"]}


def tag(begin: str, schema: Any, end: str = "</f>") -> dict[str, Any]:
    content = {"type": "json_schema", "json_schema": schema}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


TAGS = [tag("<f=we>", NEEDY), tag("<f=weather>", PLACE)]
TRIGGERED = {"type": "triggered_tags", "triggers": ["<f="], "tags": TAGS}


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(BYTES, GuideConfig())


def takes_text(form: dict[str, Any], text: str) -> bool:
    guide = Guide(structural_tag={"format": form}, key_order="any")
    return takes(compiler().compile(guide), text)


def test_each_schema_holds_behind_its_own_tag():
    good = 'so "<f" {"days":1} <f=weather>{"days":1,"city":"<f=we>{}"}</f> and <f=we>{"b":1,"a":2}'
    assert takes_text(TRIGGERED, good + '</f> {"a":1,"a":2}')
    for bad in (
        '<f=weather>{"days":1}</f>',
        '<f=we>{"b":1}</f>',
        '<f=we>{"a":1}</f><f=we>{"a":1,"a":2}</f>',
    ):
        assert not takes_text(TRIGGERED, bad), bad


def test_tags_in_other_formats():
    listed = {"type": "tags_with_separator", "tags": TAGS, "separator": ", "}
    form = {"type": "sequence", "elements": [{"type": "const_string", "value": "do: "}, listed]}
    assert takes_text(form, 'do: <f=we>{"a":1}</f>, <f=weather>{"days":1, "city":""}</f>')
    assert not takes_text(form, 'do: <f=we>{"a":1}</f>, <f=weather>{"days":1}</f>')


def test_a_schema_that_is_the_whole_text():
    form = {"type": "json_schema", "json_schema": PLACE}
    assert takes_text(form, ' {"days":1, "city":"x"}'.strip())
    assert not takes_text(form, '{"days":1}')


REFUSED = {
    "part of type json_schema": {
        "type": "sequence",
        "elements": [{"type": "const_string", "value": "x"}, TRIGGERED["tags"][0]["content"]],
    },
    "anything but JSON": {**TRIGGERED, "tags": [{**TAGS[0], "content": {"type": "any_text"}}]},
    "begin alike": {**TRIGGERED, "tags": [tag("<f=", NEEDY), tag('<f={"', PLACE)]},
    "may contain the beginning": {**TRIGGERED, "tags": [tag("<f=a>", NEEDY, end="<")]},
}


@pytest.mark.parametrize("why", REFUSED)
def test_tags_whose_json_is_not_found_for_certain_are_refused(why):
    guide = Guide(
        structural_tag=json.dumps({"format": REFUSED[why]}), key_order="any", backend="llguidance"
    )
    with pytest.raises(UnsupportedGuide, match=why):
        compiler().compile(guide)
