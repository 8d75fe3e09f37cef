"""What chat templates are told of earlier calls, and of tools."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from chat_templates import with_template

from specguide.guided.tools import tool_formats
from specguide.server.bodies.shared_fields import TemplateFields
from specguide.server.tasks.call_form import CallForm, call_form, template_variables
from specguide.server.tasks.conversation import _prompt
from specguide.server.tasks.messages import template_messages
from specguide.server.tasks.prompt import Conversation, _in_call_form, prompt_ids
from specguide.server.tasks.reasoning import ReasoningPlan

CALLED = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"city": "é"}'}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "sunny"},
]
LOOP = "{% for m in messages %}[{{ m.role }}]"
CALLS = "{% for c in m.tool_calls %}{{ c.function.name }} "
CITY = "{% for name in c.function.arguments.keys() %}{{ c.function.arguments[name] }}{% endfor %}"
END = "{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (
            LOOP + "{{ m.content }}" + CALLS + "{{ c.function.arguments|tojson }}" + END,
            'f {"city": "é"}',
        ),
        (LOOP + "{{ m.content + '.' }}" + CALLS + CITY + END, ".f é"),
        (
            LOOP + "{% if m.content is not defined %}" + CALLS + CITY + "{% endfor %}{% endif %}"
            "{% endfor %}",
            "f é",
        ),
        (LOOP + CALLS + "{{ '>' + c.function.arguments }}" + END, 'f >{"city": "é"}'),
        (
            LOOP + "{{ m.content }}{% endfor %}",
            '<tool_call>\n{"name": "f", "arguments": {"city": "é"}}\n</tool_call>',
        ),
    ],
    ids=["content or none", "content", "no content", "text", "no calls"],
)
def test_calls_are_told_as_the_template_takes_them(template, written):
    """Clients send `"content": null` back beside calls, and arguments as text."""
    tokenizer = with_template(template)
    backend = SimpleNamespace(call_form=call_form(tokenizer, tool_formats()["hermes"]))
    messages = _in_call_form(backend, TemplateFields(), template_messages(CALLED))
    token_ids = tokenizer.apply_chat_template(messages)
    text = tokenizer.decode(token_ids, skip_special_tokens=False)
    assert text.split("[assistant]")[1].split("[tool]")[0] == written


def test_a_template_that_refuses_all_calls_refuses_those_of_the_client():
    tokenizer = with_template("{{ raise_exception('no calls') }}")
    assert call_form(tokenizer, tool_formats()["hermes"]) == CallForm(tool_formats()["hermes"])


def test_functions_are_told_under_the_name_that_the_template_reads():
    tools = [{"type": "function", "function": {"name": "f"}}]
    for name, functions in (("smollm3", {"xml_tools": [{"name": "f"}]}), ("hermes", {})):
        assert template_variables(tool_formats()[name], tools) == functions


@pytest.mark.parametrize(
    ("kwargs", "day"), [(None, r"\d{4}-\d\d-\d\d"), ({"datetime": "noon"}, "noon")]
)
@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "f"}}]])
def test_a_template_that_reads_functions_as_text_is_told_them_and_the_day(tools, kwargs, day):
    """As FireFunction's does, which fails without either."""
    tokenizer = with_template(
        "{{ 'JSON spec:' + functions + ' Today is ' + datetime }}"
        + LOOP
        + CALLS
        + "{{ '>' + c.function.arguments }}"
        + END
    )
    known = tool_formats()["firefunction"]
    backend = SimpleNamespace(
        tokenizer=tokenizer,
        known_tool_format=known,
        call_form=call_form(tokenizer, known),
        config=SimpleNamespace(allow_special_tokens=False),
    )
    asked = TemplateFields(chat_template_kwargs=kwargs)
    conversation = Conversation("messages", template_messages(CALLED))
    token_ids = prompt_ids(backend, asked, conversation, tools=tools)
    text = tokenizer.decode(token_ids, skip_special_tokens=False)
    spec, said = text.removeprefix("JSON spec:").split(" Today is ")
    assert json.loads(spec) == [tool["function"] for tool in tools or ()]
    assert re.fullmatch(day + r"\[user\]\[assistant\]f >\{\"city\": \"é\"\}\[tool\]", said)


@pytest.mark.parametrize(
    ("name", "has_tools", "is_continued", "end"),
    [
        ("functionary_v32", False, False, ">>>all\n"),
        ("functionary_v32", True, False, ">>>"),
        ("functionary_v32", False, True, "Weather >>>"),
        ("hermes", False, False, ">>>"),
    ],
)
def test_an_answer_without_tools_is_for_all(name, has_tools, is_continued, end):
    """functionary 3.2 writes to whom it speaks, and that is no part of what it says."""
    tokenizer = with_template(
        "{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '>>>' }}{% endif %}"
    )
    backend = SimpleNamespace(
        tokenizer=tokenizer,
        known_tool_format=tool_formats()[name],
        config=SimpleNamespace(allow_special_tokens=False),
        check_prompt=lambda *_: None,
        check_prompt_ids=lambda *_: None,
    )
    plan = ReasoningPlan(None, has_tools=has_tools)
    said = [{"role": "assistant" if is_continued else "user", "content": "Weather >>>"}]
    conversation = Conversation("messages", said, is_continued)
    token_ids = _prompt(backend, TemplateFields(), conversation, plan, None, None, 100)
    assert tokenizer.decode(token_ids, skip_special_tokens=False).endswith(end)
