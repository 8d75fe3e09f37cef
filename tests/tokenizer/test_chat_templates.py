"""Templates are told what they read and no more, fail as a 400, and a client's own runs where it
can be killed."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from chat_templates import with_template
from transformers import PreTrainedTokenizerFast

from specguide import LLM
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.errors import InvalidParams
from specguide.server.tasks.prompt import MAX_CHARS, MAX_NUMBER, MAX_VALUES, check_variables
from specguide.tokenizer import Tokenizer

USER = [{"role": "user", "content": "hi"}]


STRICT = (
    "{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('not first') }}{% endif %}"
    "{% if m.role == 'user' and loop.previtem is defined and loop.previtem.role == 'user' %}"
    "{{ raise_exception('not in turns') }}{% endif %}"
    "{% if loop.first and m.role not in ('system', 'user') %}{{ raise_exception('no') }}{% endif %}"
    "[{{ m.role }} {{ m.content }}]{% endfor %}"
)


DROPPING = (
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}"
    "[{{ m.role }} {{ m.content }}]{% endif %}{% endfor %}"
)


def rendered(tokenizer: Tokenizer, **variables: Any) -> str:
    return tokenizer.decode(
        tokenizer.apply_chat_template(USER, variables=variables), skip_special_tokens=False
    )


def test_a_template_is_told_what_it_reads() -> None:
    tokenizer = with_template(
        "{% set own = 1 %}{{ own }}{{ style | default('-') }}"
        "{% if deep and deep.er %}+{% endif %}"
        "{% for m in messages %}{{ m.content }}{% endfor %}{{ caller_made is defined }}"
    )
    assert rendered(tokenizer) == "1-hiFalse"
    assert rendered(tokenizer, style="terse", deep={"er": 1}, own=7, caller=3) == "1terse+hiFalse"
    assert rendered(tokenizer, unread="{{ 1 }}", m="x", loop="x") == "1-hiFalse"


def test_a_template_in_place_of_the_models_own(tmp_path: Path) -> None:
    written = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    file = tmp_path / "my.jinja"
    file.write_text(written)
    for given in (written, file, str(file)):
        llm = LLM(chat_template=given)
        assert llm.tokenizer.chat_template == written
        assert rendered(llm.tokenizer) == "<|user|>hi"
        llm.close()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{% for m in messages %}", "chat_template is malformed at line 1: Unexpected end of temp"),
        ("nowhere.jinja", r"a file or a template's text; 'nowhere\.jinja' cannot be read"),
        (3, "chat_template must be a text or None, found 3"),
    ],
)
def test_and_one_that_is_none(given: Any, told: str) -> None:
    with pytest.raises(InvalidParams, match=told) as refused:
        Engine(EngineConfig(chat_template=given))
    assert refused.value.param == "chat_template"


@pytest.mark.parametrize("content", ["Paris", "Paris is ", " It is <|end|> not", "a\n\n"])
@pytest.mark.parametrize("written", ["{{ m.content }}", "{{ m.content | trim }}"])
def test_a_final_message_is_continued_as_transformers_does(written: str, content: str) -> None:
    tokenizer = with_template(
        "{% for m in messages %}<|begin|>{{ m.role }}:" + written + "<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|begin|>assistant:{% endif %}"
    )
    messages = [*USER, {"role": "assistant", "content": content}]
    ids = tokenizer.apply_chat_template(
        messages, add_generation_prompt=False, continue_final_message=True
    )
    expected = tokenizer._template._chat.apply_chat_template(
        messages, tokenize=False, continue_final_message=True
    )
    assert tokenizer.decode(ids, skip_special_tokens=False) == expected
    end = tokenizer.token_id("<|end|>")
    assert ids.count(end) == 1  # the user's, which the template writes


def test_a_final_message_that_is_not_written_cannot_be_continued() -> None:
    tokenizer = with_template("{{ messages[0].content }}")
    messages = [*USER, {"role": "assistant", "content": "Well"}]
    with pytest.raises(InvalidParams, match="leaves out the content of the last message"):
        tokenizer.apply_chat_template(messages, continue_final_message=True)


def test_variables_with_another_meaning_are_refused() -> None:
    template = (
        "{{ documents }}{{ bos_token }}{{ raise_exception }}{{ range }}{{ messages[0].content }}"
    )
    holder = PreTrainedTokenizerFast.apply_chat_template
    names = [
        *inspect.signature(holder).parameters,
        "messages",
        "json_schema",
        "raise_exception",
        "strftime_now",
        "range",
        "namespace",
        "dict",
    ]
    assert {
        "chat_template",
        "documents",
        "padding",
        "return_tensors",
        "tokenizer_kwargs",
        "continue_final_message",
        "add_generation_prompt",
    } < set(names)
    for name in names:
        with pytest.raises(InvalidParams, match="must not set") as caught:
            rendered(with_template(template), **{name: "x"})
        assert caught.value.param == f"chat_template_kwargs.{name}"


def test_special_tokens_are_the_tokenizer_s(tmp_path: Path) -> None:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=with_template("")._backend, bos_token="<|begin|>"
    )
    fast.chat_template = "{{ bos_token }}{{ messages[0].content }}"
    with pytest.raises(InvalidParams, match="must not set bos_token"):
        rendered(Tokenizer(fast.backend_tokenizer, chat=fast), bos_token="<|end|>")


def test_several_templates() -> None:
    tokenizer = with_template("")
    tokenizer._template._chat.chat_template = {
        "default": "{{ a }}{{ b }}",
        "tool_use": "{{ b }}{{ tools[0].name }}",
    }
    assert rendered(tokenizer, a="1", b="2", c="3") == "12"
    token_ids = tokenizer.apply_chat_template(USER, [{"name": "f"}], variables={"a": "1", "b": "2"})
    assert tokenizer.decode(token_ids) == "2f"
    assert tokenizer.chat_template == "{{ b }}{{ tools[0].name }}"
    tokenizer._template._chat.chat_template = {"rag": "{{ a }}"}
    with pytest.raises(InvalidParams):
        rendered(tokenizer, a="1")


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('no') }}",
        "{{ nothing.at.all }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ messages[7].content }}",
        "{{ messages.content.x }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ range(10 ** 9) | list }}",
        "{{ 'x' * 10 ** 17 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages | map('nope') | list }}",
        "{{ [] | first | abs }}",
        "{% set messages.x = 1 %}",
        "{{ 'abc'.encode('nope') }}",
        "{% if %}",
        "{{ messages.pop() }}",
        "{{ ''.join(messages) }}",
        "{{ '%d' % 'x' }}",
        "{{ '{1}'.format(1) }}",
        "{% include 'x' %}",
    ],
)
def test_all_that_a_template_raises_is_the_messages_affair(template: str) -> None:
    with pytest.raises(
        InvalidParams, match=r"the chat template refuses these messages: ."
    ) as caught:
        rendered(with_template(template), style="x")
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "value",
    [
        MAX_NUMBER + 1,
        -(10**400),
        1e300,
        float("inf"),
        float("nan"),
        "x" * (MAX_CHARS + 1),
        ["x" * 400] * 50,
        {"x" * (MAX_CHARS + 1): 1},
        [0] * MAX_VALUES,
        [[[[10**9]]]],
        {"a": {"b": [1e7]}},
    ],
)
def test_variables_are_bounded(value: Any) -> None:
    with pytest.raises(InvalidParams, match="make style smaller") as caught:
        check_variables({"fine": True, "style": value})
    assert caught.value.param == "chat_template_kwargs.style"
    check_variables(
        {
            "a": True,
            "b": None,
            "c": -MAX_NUMBER,
            "d": "x" * 1000,
            "e": ["brave_search"],
            "f": {"g": 0.5},
        }
    )


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        ("su", "[system 0][user 1]"),
        ("ssu", "[system 0\n\n1][user 2]"),
        ("sus", "[system 0][user 1\n\n2]"),
        ("susau", "[system 0][user 1\n\n2][assistant 3][user 4]"),
        ("uasu", "[user 0][assistant 1][user 2\n\n3]"),
        ("utss", "[user 0][tool 1][user 2\n\n3]"),
        ("uu", "[user 0\n\n1]"),
        ("ssuu", "[system 0\n\n1][user 2\n\n3]"),
    ],
)
def test_a_strict_template_is_given_strict_turns(roles: str, text: str) -> None:
    """Agents send more than one system message, and messages of the user side by side."""
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    messages = [{"role": names[role], "content": str(i)} for i, role in enumerate(roles)]
    said = [dict(message) for message in messages]
    tokenizer = with_template(STRICT)
    assert tokenizer.decode(tokenizer.apply_chat_template(messages)) == text
    assert messages == said
    with pytest.raises(InvalidParams, match="refuses these messages: no"):
        tokenizer.apply_chat_template([{"role": "assistant", "content": ""}, *messages])


def test_a_template_that_drops_system_messages_is_given_strict_turns() -> None:
    roles = ("system", "system", "user", "assistant", "user", "system")
    messages = [{"role": role, "content": f"<{i}>"} for i, role in enumerate(roles)]
    tokenizer = with_template(DROPPING)
    text = tokenizer.decode(tokenizer.apply_chat_template(messages))
    assert text == "[system <0>\n\n<1>][user <2>][assistant <3>][user <4>\n\n<5>]"
    as_sent = tokenizer.decode(tokenizer.apply_chat_template([messages[0], *messages[2:5]]))
    assert as_sent == "[system <0>][user <2>][assistant <3>][user <4>]"


def test_a_template_that_takes_any_messages_is_given_all() -> None:
    tokenizer = with_template("{% for m in messages %}[{{ m.role }}]{% endfor %}")
    roles = ("system", "system", "user", "user", "system")
    messages = [{"role": role, "content": ""} for role in roles]
    text = tokenizer.decode(tokenizer.apply_chat_template(messages))
    assert text == "".join(f"[{role}]" for role in roles)
