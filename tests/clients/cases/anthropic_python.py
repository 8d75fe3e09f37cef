"""anthropic: messages."""

import json

import anthropic
from client_case import KEY, MODEL, QUESTION, SENTENCE, URL, get_weather, run

CLIENT = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, timeout=60)
COLD = {"temperature": 0}
ASKED = {
    "model": MODEL,
    "max_tokens": 200,
    "extra_body": COLD,
    "messages": [{"role": "user", "content": SENTENCE}],
}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def structured():
    stated = {"format": {"type": "json_schema", "schema": SCHEMA}}
    message = CLIENT.messages.create(**ASKED, output_config=stated)
    assert json.loads(message.content[0].text).keys() == {"name", "age"}


def tools():
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
    }
    tool = {"name": "get_weather", "description": "Weather of a city", "input_schema": schema}
    messages = [{"role": "user", "content": QUESTION}]
    asked = {"model": MODEL, "max_tokens": 200, "tools": [tool], "extra_body": COLD}
    called = CLIENT.messages.create(**asked, messages=messages, tool_choice={"type": "any"})
    results = [
        {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": get_weather(block.input["city"]),
        }
        for block in called.content
        if block.type == "tool_use"
    ]
    messages += [
        {"role": "assistant", "content": called.content},
        {"role": "user", "content": results},
    ]
    answer = CLIENT.messages.create(**asked, messages=messages, tool_choice={"type": "none"})
    assert results and answer.content[0].text


def streaming():
    with CLIENT.messages.stream(**ASKED) as stream:
        text = "".join(stream.text_stream)
        assert text == stream.get_final_message().content[0].text


def errors():
    try:
        CLIENT.messages.create(**{**ASKED, "model": "another"})
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error"
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
