"""litellm."""

import contextlib
import json

import litellm
from client_case import KEY, MODEL, QUESTION, SENTENCE, URL, get_weather, run
from pydantic import BaseModel

litellm.telemetry = False
ASKED = {
    "model": f"openai/{MODEL}",
    "api_base": f"{URL}/v1",
    "api_key": KEY,
    "timeout": 60,
    "num_retries": 0,
}
SAID = [{"role": "user", "content": SENTENCE}]


class Person(BaseModel):
    name: str
    age: int


def structured():
    done = litellm.completion(**ASKED, messages=SAID, response_format=Person)
    Person.model_validate_json(done.choices[0].message.content)


def tools():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": schema}}
    messages = [{"role": "user", "content": QUESTION}]
    asked = {**ASKED, "tools": [tool]}
    called = litellm.completion(**asked, messages=messages, tool_choice="required")
    messages.append(called.choices[0].message.model_dump())
    for call in called.choices[0].message.tool_calls:
        result = get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert litellm.completion(**asked, messages=messages, tool_choice="none").choices


def streaming():
    chunks = list(litellm.completion(**ASKED, messages=SAID, stream=True))
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content


def errors():
    with contextlib.suppress(litellm.NotFoundError):
        litellm.completion(**{**ASKED, "model": "openai/another"}, messages=SAID)
    try:
        litellm.completion(**ASKED, messages=[{"role": "user", "content": "many words " * 20000}])
    except litellm.ContextWindowExceededError:
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
