"""openai-agents, over chat and over responses."""

import asyncio
import contextlib

import agents
import openai
from agents import Agent, ModelSettings, Runner, function_tool
from client_case import CALLS, KEY, MODEL, QUESTION, SENTENCE, URL, get_weather, run
from pydantic import BaseModel

LOOP = asyncio.new_event_loop()  # the client is bound to one
asyncio.set_event_loop(LOOP)
agents.set_tracing_disabled(True)
CLIENT = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0, timeout=60)
MODELS = (
    agents.OpenAIChatCompletionsModel(MODEL, CLIENT),
    agents.OpenAIResponsesModel(MODEL, CLIENT),
)


class Person(BaseModel):
    name: str
    age: int


def structured():
    for model in MODELS:
        agent = Agent("reader", model=model, output_type=Person)
        assert isinstance(Runner.run_sync(agent, SENTENCE).final_output, Person)


def tools():
    for model in MODELS:
        CALLS.clear()
        agent = Agent(
            "teller",
            model=model,
            tools=[function_tool(get_weather)],
            model_settings=ModelSettings(tool_choice="required"),
        )
        with contextlib.suppress(agents.MaxTurnsExceeded):  # a weak model may call for ever
            Runner.run_sync(agent, QUESTION, max_turns=4)
        assert CALLS


def streaming():
    async def stream():
        for model in MODELS:
            result = Runner.run_streamed(Agent("reader", model=model, output_type=Person), SENTENCE)
            async for _ in result.stream_events():
                pass
            assert isinstance(result.final_output, Person)

    LOOP.run_until_complete(stream())


def errors():
    model = agents.OpenAIChatCompletionsModel("another", CLIENT)
    try:
        Runner.run_sync(Agent("reader", model=model), SENTENCE)
    except openai.NotFoundError:
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
