"""llama-index: OpenAILike and FunctionAgent."""

import asyncio

import openai
from client_case import CALLS, KEY, MODEL, QUESTION, SENTENCE, URL, get_weather, run
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


def llm(model=MODEL, **options):
    return OpenAILike(
        model=model,
        api_base=f"{URL}/v1",
        api_key=KEY,
        is_chat_model=True,
        temperature=0,
        max_tokens=100,
        max_retries=0,
        **options,
    )


CHAT = llm(is_function_calling_model=True)


def structured():
    """By a function, and by a schema."""
    prompt = PromptTemplate(SENTENCE)
    for one in (CHAT, llm(should_use_structured_outputs=True)):
        person = one.structured_predict(Person, prompt)
        assert isinstance(person, Person), person


def tools():
    async def asked():
        agent = FunctionAgent(tools=[get_weather], llm=CHAT)
        return await agent.run(QUESTION, max_iterations=4)

    assert str(asyncio.run(asked()))
    assert CALLS and all(isinstance(city, str) for city in CALLS)


def streaming():
    said = [ChatMessage(role="user", content=QUESTION)]
    whole = CHAT.chat(said).message.content
    assert "".join(piece.delta or "" for piece in CHAT.stream_chat(said)) == whole


def errors():
    try:
        llm("another").complete(SENTENCE)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
    else:
        raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
