"""langchain-openai and langgraph."""

from client_case import CALLS, KEY, MODEL, QUESTION, SENTENCE, URL, get_weather, run
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

CHAT = ChatOpenAI(base_url=f"{URL}/v1", api_key=KEY, model=MODEL, temperature=0, stream_usage=True)


class Person(BaseModel):
    name: str
    age: int


def structured():
    for method in ("json_schema", "function_calling"):
        made = CHAT.with_structured_output(Person, method=method).invoke(SENTENCE)
        assert isinstance(made, Person), method


def tools():
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    asked = [tool(get_weather)]
    must = CHAT.bind_tools(asked, tool_choice="required")
    may_not = CHAT.bind_tools(asked, tool_choice="none")
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [must.invoke(state["messages"])]})
    graph.add_node("run", ToolNode(asked))
    graph.add_node("tell", lambda state: {"messages": [may_not.invoke(state["messages"])]})
    for one, next_one in ((START, "ask"), ("ask", "run"), ("run", "tell"), ("tell", END)):
        graph.add_edge(one, next_one)
    done = graph.compile().invoke({"messages": [("user", QUESTION)]})
    assert CALLS and done["messages"][-1].content


def streaming():
    chunks = list(CHAT.stream(SENTENCE))
    assert "".join(chunk.content for chunk in chunks)
    assert chunks[-1].usage_metadata or any(chunk.usage_metadata for chunk in chunks)


def errors():
    try:
        CHAT.model_copy(update={"model_name": "another"}).invoke(SENTENCE)
    except Exception as error:
        assert "does not exist" in str(error)
        return
    raise AssertionError("no error")


if __name__ == "__main__":
    run(globals())
