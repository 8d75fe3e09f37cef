"""Owns a conversation in a terminal: its messages, turn by turn, and the results of calls that the
user types."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import typer

from specguide.cli.chat_models import ChatModel
from specguide.errors import SpecguideError
from specguide.server.tasks.custom_tools import CALLED_WITH
from specguide.server.tasks.events import Arguments, CallBegin, End, Event, Text

Message = dict[str, Any]


def say(text: str) -> None:
    """Print a line that is not part of an answer, on standard error."""
    typer.secho(text, dim=True, err=True)


def read_line(prompt: str) -> str:
    """The line that the user types. Only a terminal shows the prompt. Raises EOFError at the end of
    standard input."""
    return input(prompt if sys.stdin.isatty() else "")


@dataclass
class Conversation:
    """A conversation with a model.

    fields:   the request's fields besides its messages
    messages: the messages so far; only whole turns are kept
    run:      runs a coroutine; returns False where the user stopped it
    reworded: rewrites an error's message with the names of options
    """

    model: ChatModel
    fields: dict[str, Any]
    run: Callable[[Any], bool]
    system: str | None = None
    reworded: Callable[[str], str] = str
    messages: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was said; the system message stays."""
        self.messages = [] if self.system is None else [{"role": "system", "content": self.system}]

    def turn(self, text: str) -> None:
        """Print the answer to a text. Where the model calls tools, ask the user for each result,
        and continue."""
        before = list(self.messages)
        self.messages.append({"role": "user", "content": text})
        try:
            while calls := self._answer():
                for call in calls:
                    called = call[call["type"]]
                    say(f"→ {called['name']}({called[CALLED_WITH[call['type']]]})")
                    self.messages.append(
                        {
                            "role": "tool",
                            "tool_call_id": call["id"],
                            "content": read_line(f"result of {called['name']}: "),
                        }
                    )
        except SpecguideError as error:
            say(f"no answer: {self.reworded(str(error))}")
            self.messages = before
        except KeyboardInterrupt:
            say("\nno result was given, so this turn is forgotten")
            self.messages = before

    def _answer(self) -> list[dict[str, Any]]:
        """Stream one answer to standard output and keep it. Returns its calls. An answer that was
        stopped is kept as text."""
        written = _Written()
        is_whole = self.run(self._stream(written))
        if written.text:
            typer.echo()
        if not is_whole:
            say("stopped")
        elif written.finish_reason == "length":
            say("cut: it reached --max-tokens or the end of the model's context")
        calls = (
            list(written.calls.values()) if is_whole and written.finish_reason != "length" else []
        )
        said: Message = {"role": "assistant", "content": written.text}
        self.messages.append({**said, "tool_calls": calls} if calls else said)
        return calls

    async def _stream(self, written: _Written) -> None:
        body = {"model": self.model.name, "messages": self.messages, **self.fields}
        async with aclosing(self.model.events(body)) as events:
            async for event in events:
                typer.echo(written.take(event), nl=False)
                sys.stdout.flush()


@dataclass
class _Written:
    """The part of an answer that has come."""

    text: str = ""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish_reason: str | None = None

    def take(self, event: Event) -> str:
        """Take an event. Returns the text that it adds."""
        match event:
            case Text(text=text):
                self.text += text
                return text
            case CallBegin(index=index, name=name, kind=kind):
                call = {"id": f"call_{secrets.token_hex(12)}", "type": kind}
                self.calls[index] = {**call, kind: {"name": name, CALLED_WITH[kind]: ""}}
            case Arguments(index=index, text=text):
                kind = self.calls[index]["type"]
                self.calls[index][kind][CALLED_WITH[kind]] += text
            case End(finish_reason=reason):
                self.finish_reason = reason
        return ""
