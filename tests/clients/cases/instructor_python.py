"""instructor over openai."""

import instructor
import openai
from client_case import KEY, MODEL, SENTENCE, URL, run
from pydantic import BaseModel

OPENAI = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0, timeout=60)
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": SENTENCE}]}


class Person(BaseModel):
    name: str
    age: int


def structured():
    client = instructor.from_openai(OPENAI, mode=instructor.Mode.JSON_SCHEMA)
    assert isinstance(client.create(response_model=Person, **ASKED), Person)


def tools():
    client = instructor.from_openai(OPENAI, mode=instructor.Mode.TOOLS)
    assert isinstance(client.create(response_model=Person, **ASKED), Person)


def streaming():
    client = instructor.from_openai(OPENAI, mode=instructor.Mode.JSON_SCHEMA)
    *_, last = client.create_partial(response_model=Person, **ASKED)
    assert last.name is not None and last.age is not None


def errors():
    client = instructor.from_openai(OPENAI, mode=instructor.Mode.JSON_SCHEMA)
    try:
        client.create(response_model=Person, max_retries=0, **{**ASKED, "model": "another"})
    except Exception as error:
        assert "does not exist" in str(error)
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
