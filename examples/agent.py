"""An agent that calls two real tools until it is done, over the OpenAI API of a running server.

    specguide serve &
    python examples/agent.py "I want to get the time in Tokyo"

Every call that arrives names one of the tools and has arguments of its schema: the server's grammar
sees to that. (The shipped model has a few million weights. It finds the tool; what it makes of the
result is another matter.)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from openai import OpenAI

MOST_TURNS = 6
ZONES = {
    "Riga": "Europe/Riga",
    "Paris": "Europe/Paris",
    "Tokyo": "Asia/Tokyo",
    "New York": "America/New_York",
}


def get_time(city: str) -> str:
    """The time in one of four cities."""
    return datetime.now(ZoneInfo(ZONES[city])).strftime("%H:%M")


def count_lines(file: str) -> str:
    """The number of lines of a file under the current folder."""
    path = Path(file).resolve()
    if not path.is_relative_to(Path.cwd()) or not path.is_file():
        return f"there is no file {file} here"
    return str(len(path.read_text(errors="replace").splitlines()))


TOOLS: dict[str, tuple[Callable[..., str], dict[str, Any]]] = {
    "get_time": (get_time, {"city": {"type": "string", "enum": list(ZONES)}}),
    "count_lines": (count_lines, {"file": {"type": "string", "maxLength": 60}}),
}


def definition(name: str) -> dict[str, Any]:
    """As the API wants it."""
    function, properties = TOOLS[name]
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": function.__doc__,
            "strict": True,
            "parameters": parameters,
        },
    }


def main() -> None:
    """Ask until there is an answer without calls."""
    client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    model = client.models.list().data[0].id
    messages: list[Any] = [
        {"role": "user", "content": " ".join(sys.argv[1:]) or "I want to get the time in Riga"}
    ]
    for _ in range(MOST_TURNS):
        message = (
            client.chat.completions.create(
                model=model,
                messages=messages,
                tools=[definition(name) for name in TOOLS],
                temperature=0,
                parallel_tool_calls=False,
                max_completion_tokens=200,
            )
            .choices[0]
            .message
        )
        if not message.tool_calls:
            print(message.content)
            return
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            function, _ = TOOLS[call.function.name]
            result = function(**json.loads(call.function.arguments))
            print(f"{call.function.name}({call.function.arguments}) → {result}", file=sys.stderr)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    print("no answer after so many turns", file=sys.stderr)


if __name__ == "__main__":
    main()
