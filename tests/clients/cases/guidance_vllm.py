"""guidance: VLLMModel."""

import guidance
import openai
from client_case import KEY, MODEL, SENTENCE, URL, Refused, run
from guidance import assistant, gen, select, user
from guidance.models.experimental import VLLMModel
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


def model(name=MODEL):
    return VLLMModel(name, base_url=f"{URL}/v1", api_key=KEY, echo=False)


def answered(asked, grammar):
    with user():
        asked += SENTENCE
    with assistant():
        asked += grammar
    return asked


def structured():
    made = answered(model(), guidance.json(name="made", schema=Person))["made"]
    assert isinstance(Person.model_validate_json(made), Person)
    name = answered(model(), "It is " + select(["Anna", "Bob"], name="name") + ".")["name"]
    assert name in ("Anna", "Bob")


def streaming():
    """guidance streams always; what it captures is read from the pieces."""
    assert answered(model(), gen("age", regex="[0-9]{2}"))["age"].isdigit()
    try:
        answered(model(), gen("free", max_tokens=8, stop="."))
    except openai.BadRequestError as error:
        assert "no grammar backend enforces this" in str(error)
        why = "gen with stop or max_tokens: llguidance cannot take back rejected drafts in such"
        raise Refused(f"{why} a grammar; gen with a regex works, streamed") from error


def errors():
    try:
        answered(model("another"), gen("age", regex="[0-9]{2}"))
    except openai.NotFoundError:
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
