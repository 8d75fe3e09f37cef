"""Which tool calls a data set accepts, and what a model is told of tools that its template does not
show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specguide.bench.prompts import bare, messages_of
from specguide.bench.rightness import is_right
from specguide.bench.tasks import task_of

ACCEPTED = {
    "book": {
        "city": ["New York", "NYC"],
        "nights": [2],
        "extras": ["", ["spa"]],
        "guest": [{"name": ["Ann"], "age": ["", 30]}],
    }
}
RIGHT = {"city": "new-york", "nights": 2, "guest": {"name": "Ann"}}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"nights": 2.0, "extras": ["Spa"], "guest": {"name": "ann", "age": 30}}, True),
        ({"city": "Boston"}, False),
        ({"nights": True}, False),
        ({"nights": None}, False),
        ({"extras": ["spa", "spa"]}, False),
        ({"guest": {"name": "Ann", "age": 31}}, False),
        ({"guest": {"age": 30}}, False),
        ({"more": 1}, False),
    ],
)
def test_arguments(changed: dict[str, Any], expected: bool) -> None:
    call = {"name": "book", "arguments": {**RIGHT, **changed}}
    assert is_right(ACCEPTED, json.dumps(call)) is expected


@pytest.mark.parametrize("text", ["", "no", "[]", '{"name": "pay", "arguments": {}}', '{"name":1}'])
def test_what_is_no_such_call(text: str) -> None:
    assert not is_right(ACCEPTED, text)


def test_required_arguments_must_be_there() -> None:
    assert not is_right(ACCEPTED, '{"name": "book", "arguments": {"city": "NYC", "nights": 2}}')


def test_only_a_single_call_is_judged() -> None:
    record = {"question": [{"role": "user", "content": "x"}], "tools": [], "answer": [ACCEPTED]}
    for answer, expected in (([ACCEPTED], ACCEPTED), ([ACCEPTED] * 2, None), (None, None)):
        task = task_of({**record, "answer": answer}, 0)
        assert task is not None and task.right == expected


def test_a_model_is_told_what_its_template_does_not_show() -> None:
    function = {"name": "book", "parameters": {"type": "object"}}
    asked = {"question": [{"role": "user", "content": "x"}], "tools": [{"function": function}]}
    call = task_of(asked, 0)
    assert call is not None
    system, user = messages_of(call, "{{ messages }}")
    assert '"name": "book"' in system["content"] and user["content"] == "x"
    assert messages_of(call, "{{ tools }}") == call.messages
    own = {"role": "system", "content": "JSON of …"}
    schema = task_of({"messages": [own, *asked["question"]], "schema": {"type": "integer"}}, 0)
    bare_one = task_of({"messages": asked["question"], "schema": {"type": "integer"}}, 0)
    assert schema is not None and messages_of(schema, None) == schema.messages
    assert bare_one is not None and "integer" in messages_of(bare_one, None)[0]["content"]
    assert messages_of(bare_one, "{{ json_schema }}") == bare_one.messages


def test_json_in_a_code_fence() -> None:
    assert bare('So:\n```json\n{"a": 1}\n```\nDone') == '\n{"a": 1}\n'
    assert bare('{"a": "```"}') == '{"a": "```"}'
