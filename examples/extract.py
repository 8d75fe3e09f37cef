"""Structured output: what a note says of a person, as a Pydantic model, over the OpenAI API of a
running server.

    specguide serve &
    python examples/extract.py examples/person.txt

It is printed as it is written; what arrives always fits the model, whatever the note says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int
    occupation: str
    city: str
    email: str


def main() -> None:
    """Read a file, or standard input."""
    note = Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else sys.stdin.read()
    client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    model = client.models.list().data[0].id
    with client.responses.stream(
        model=model, input=note, text_format=Person, temperature=0
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                print(event.delta, end="", file=sys.stderr, flush=True)
        person = stream.get_final_response().output_parsed
    print(f"\n{person!r}")


if __name__ == "__main__":
    main()
