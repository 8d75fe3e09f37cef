"""Owns `specguide chat`: the loop over the lines that the user types, its commands, and Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.cli.chat_models import ChatModel, LocalModel, RemoteModel
from specguide.cli.config_options import (
    CACHE,
    ENGINE,
    GUIDE,
    SPEC,
    WITHOUT_SPEC,
    Given,
    engine_config,
    flag_given,
    in_option_names,
    takes,
)
from specguide.cli.conversation import Conversation, read_line, say
from specguide.cli.options import SAMPLING, WRITTEN, ApiKey, GuideFiles, Model, read_json
from specguide.errors import InvalidParams
from specguide.params import SamplingParams

HELP = """/help   show this help
/reset  start a new conversation; the system message stays
/quit   leave, as Ctrl-D does
Ctrl-C stops an answer. With --tools, type the result of each call that is shown."""


_ENGINE = replace(ENGINE, names={**ENGINE.names, "max_batch_size": None})


_SCHEMA = replace(WRITTEN, names={"regex": None, "grammar": None})
_OF_ENGINES = (WITHOUT_SPEC, SPEC, _ENGINE, CACHE, GUIDE)


@takes(_SCHEMA, SAMPLING, *_OF_ENGINES)
def chat(
    *,
    tools: Annotated[
        Path | None,
        typer.Option(
            help="File with a JSON list of OpenAI tool definitions. Calls are shown, and you type "
            "their results.",
            rich_help_panel="What is written",
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system message.")] = None,
    model: Model = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Talk to a server of the OpenAI API instead, http://…/v1; --model is then its "
            "name there.",
            rich_help_panel="Server",
        ),
    ] = None,
    api_key: ApiKey = "none",
    given: Given,
) -> None:
    """Talk with a model in the terminal, or answer one line of standard input after another. Type
    /help for its commands."""
    fields = _fields(given, tools)
    lora = given[SamplingParams]["lora"]
    if url is not None:
        _refuse_beside_url(given, lora)
    source: ChatModel = (
        RemoteModel(url, model, api_key)
        if url is not None
        else LocalModel(replace(engine_config(model, given), max_batch_size=1), lora)
    )
    reworded = in_option_names(_SCHEMA, SAMPLING, *_OF_ENGINES) if url is None else str
    loop = asyncio.new_event_loop()
    try:
        _talk(Conversation(source, fields, partial(_run, loop), system, reworded))
    finally:
        loop.run_until_complete(source.close())
        loop.close()


def _refuse_beside_url(given: Given, lora: str | None) -> None:
    """Raises InvalidParams for an adapter, and for an option of the engine, which has no effect
    since a server is asked."""
    if lora is not None:
        raise InvalidParams(
            "a server's adapter is named by --model: leave --lora out", param="lora"
        )
    flags = (flag_given(source, given[source.config]) for source in _OF_ENGINES)
    flag = next(filter(None, flags), None)
    if flag is not None:
        raise InvalidParams(
            f"{flag} is for an engine in this process, and --url uses the engine of a server: "
            "leave one of them out",
            param=flag[2:],
        )


def _fields(given: Given, tools: Path | None) -> dict[str, Any]:
    """The fields of each request's body, except model and messages."""
    sampling, schema = given[SamplingParams], given[GuideFiles]["schema"]
    fields = {
        "temperature": sampling["temperature"],
        "max_completion_tokens": sampling["max_tokens"],
    }
    if sampling["seed"] is not None:
        fields["seed"] = sampling["seed"]
    if schema is not None:
        fields["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": read_json(schema)},
        }
    if tools is not None:
        fields["tools"] = _tools(tools)
    return fields


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> bool:
    """Run until `work` ends or Ctrl-C is pressed. Returns whether it ended."""
    task = loop.create_task(work)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        loop.run_until_complete(task)
    except asyncio.CancelledError:
        return False
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    return True


def _talk(conversation: Conversation) -> None:
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401  (gives input() its line editing)
        say(f"{conversation.model.name}; /help lists the commands")
    while True:
        try:
            text = read_line("> ").strip()
            if text == "/quit":
                return
            if text == "/help":
                say(HELP)
            elif text == "/reset":
                conversation.reset()
            elif text.startswith("/"):
                say(f"there is no command {text.split()[0]}; /help lists the commands")
            elif text:
                conversation.turn(text)
        except EOFError:
            return
        except KeyboardInterrupt:
            say("\nto leave, type /quit or Ctrl-D")


def _tools(path: Path) -> list[dict[str, Any]]:
    found = read_json(path)
    if (
        not isinstance(found, list)
        or not found
        or not all(isinstance(tool, dict) for tool in found)
    ):
        raise InvalidParams(
            f"{path} must hold a JSON list of tool definitions, "
            '[{"type": "function", "function": {"name": …, "parameters": …}}]',
            param="tools",
        )
    return found
