"""pydantic-ai."""

from client_case import CALLS, KEY, MODEL, QUESTION, SENTENCE, URL, get_weather, run
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

PROVIDER = OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)
CHAT = OpenAIChatModel(MODEL, provider=PROVIDER)


class Person(BaseModel):
    name: str
    age: int


def structured():
    for output in (NativeOutput(Person), Person):
        assert isinstance(Agent(CHAT, output_type=output).run_sync(SENTENCE).output, Person)


def tools():
    from pydantic_ai import UsageLimits

    agent = Agent(CHAT, tools=[get_weather], output_type=Person)
    try:
        agent.run_sync(QUESTION, usage_limits=UsageLimits(request_limit=6))
    except Exception as error:  # a weak model may go on calling for ever
        assert "request_limit" in str(error) or "retries" in str(error), error
    assert all(isinstance(city, str) for city in CALLS)


def streaming():
    result = Agent(CHAT, output_type=NativeOutput(Person)).run_stream_sync(SENTENCE)
    *_, last = result.stream_output()
    assert isinstance(last, Person)


def errors():
    try:
        Agent(OpenAIChatModel("another", provider=PROVIDER)).run_sync(SENTENCE)
    except ModelHTTPError as error:
        assert error.status_code == 404
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
