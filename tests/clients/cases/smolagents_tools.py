"""smolagents: ToolCallingAgent."""

from client_case import CALLS, KEY, MODEL, QUESTION, URL, get_weather, run
from smolagents import ChatMessage, OpenAIServerModel, ToolCallingAgent, tool

CHAT = OpenAIServerModel(MODEL, api_base=f"{URL}/v1", api_key=KEY)


def tools():
    agent = ToolCallingAgent(tools=[tool(get_weather)], model=CHAT, max_steps=3, verbosity_level=0)
    agent.run(QUESTION)
    errors = [step.error for step in agent.memory.steps if getattr(step, "error", None)]
    assert not [error for error in errors if "Error while generating" in str(error)], errors
    assert all(isinstance(city, str) for city in CALLS)


def streaming():
    said = [ChatMessage(role="user", content=[{"type": "text", "text": QUESTION}])]
    assert "".join(delta.content or "" for delta in CHAT.generate_stream(said))


if __name__ == "__main__":
    run(globals())
