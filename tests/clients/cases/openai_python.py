"""openai: chat, responses and completions."""

import json

import openai
from client_case import KEY, MODEL, QUESTION, SENTENCE, URL, get_weather, run
from pydantic import BaseModel

CLIENT = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0, timeout=60)
COLD = {"model": MODEL, "temperature": 0}
ASKED = {**COLD, "messages": [{"role": "user", "content": SENTENCE}]}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}


class Person(BaseModel):
    name: str
    age: int


def structured():
    parsed = CLIENT.chat.completions.parse(**ASKED, response_format=Person).choices[0].message
    assert isinstance(parsed.parsed, Person)
    answer = CLIENT.responses.parse(**COLD, input=SENTENCE, text_format=Person)
    assert isinstance(answer.output_parsed, Person)


def tools():
    function = {"name": "get_weather", "parameters": PARAMETERS, "strict": True}
    messages = [{"role": "user", "content": QUESTION}]
    asked = {**COLD, "tools": [{"type": "function", "function": function}]}
    called = CLIENT.chat.completions.create(**asked, messages=messages, tool_choice="required")
    message = called.choices[0].message
    messages.append(message)
    for call in message.tool_calls:
        result = get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    answer = CLIENT.chat.completions.create(**asked, messages=messages, tool_choice="none")
    assert answer.choices[0].message.content


def streaming():
    whole = CLIENT.chat.completions.create(**ASKED).choices[0].message.content
    chunks = CLIENT.chat.completions.create(**ASKED, stream=True)
    assert whole == "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    with CLIENT.responses.stream(**COLD, input=SENTENCE) as stream:
        assert stream.get_final_response().output_text


def errors():
    try:
        CLIENT.chat.completions.create(**{**ASKED, "model": "another"})
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
