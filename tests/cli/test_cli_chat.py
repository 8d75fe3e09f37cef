"""The terminal chat: lines, tools, a server behind it, Ctrl-C, mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import uvicorn
from command_line import COMMAND, EXAMPLES, TEXT, in_a_process, specguide

from specguide.config import EngineConfig, SpecConfig
from specguide.server.config import ServerConfig

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def test_chat_answers_line_after_line():
    done = in_a_process(
        "chat",
        "--schema",
        str(EXAMPLES / "person.json"),
        "--max-tokens",
        "200",
        stdin="/nope\n/help\n"
        + TEXT.strip().replace("\n", " ")
        + "\n\n/reset\nAnna is 31.\n/quit\nx\n",
    )
    assert done.returncode == 0 and "no command /nope" in done.stderr and "/reset" in done.stderr, (
        done.stderr
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["name"] == "Maria Keller" and second["name"] == "Anna" and second["age"] == 31


CUSTOM = {
    "type": "custom",
    "custom": {
        "name": "get_weather",
        "description": "The weather",
        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[A-Z][a-z]+"}},
    },
}


def chats_with_tools(tmp_path, *args, tool=WEATHER):
    (tmp_path / "tools.json").write_text(json.dumps([tool]))
    return specguide(
        "chat",
        "--tools",
        str(tmp_path / "tools.json"),
        "--max-tokens",
        "100",
        *args,
        stdin="What is the weather in Oslo?\nrain\nThanks.\n",
    )


def test_chat_shows_calls_and_takes_their_results(tmp_path):
    done = chats_with_tools(tmp_path)
    assert done.returncode == 0 and '→ get_weather({"city": "Oslo"})' in done.stderr
    assert (
        done.stdout.strip() or done.stderr.count("→ get_weather(") == 3
    )  # it was not trained on results


def test_chat_with_a_server_is_the_same(tmp_path):
    from specguide.engine import AsyncEngine, Engine
    from specguide.server.app import create_app

    app = create_app(
        AsyncEngine(Engine(EngineConfig(spec=SpecConfig(), max_batch_size=1))),
        ServerConfig("small"),
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    local, remote = chats_with_tools(tmp_path), chats_with_tools(tmp_path, "--url", url)
    custom = [chats_with_tools(tmp_path, *args, tool=CUSTOM) for args in ((), ("--url", url))]
    wrong = specguide("chat", "--url", url, "--temperature", "-1", stdin="hello\n")
    server.should_exit = True
    thread.join(30)
    assert remote.returncode == 0 and (remote.stdout, remote.stderr) == (local.stdout, local.stderr)
    assert custom[0].stderr == custom[1].stderr and "→ get_weather(Oslo)" in custom[0].stderr
    assert wrong.returncode == 0 and "no answer" in wrong.stderr and "temperature" in wrong.stderr


class Guarded(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "a key is missing"}}')


@pytest.mark.parametrize("command", [["chat"], ["bench", "serve"]], ids=str)
def test_a_wrong_key_is_told_as_such(command):
    with HTTPServer(("127.0.0.1", 0), Guarded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        done = specguide(*command, "--url", url, stdin="hello\n")
        server.shutdown()
    assert done.returncode == 2 and "no server" not in done.stderr
    assert f"the server at {url} wants another --api-key" in done.stderr, done.stderr
    assert "a key is missing" in done.stderr


def test_an_error_ends_its_turn_alone():
    done = specguide("chat", "--max-tokens", "5", stdin="x " * 5000 + "\nhello\n")
    assert done.returncode == 0 and "no answer: " in done.stderr and "context" in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_errors_and_warnings_name_options(tmp_path, caplog):
    schema = {"properties": {"a": {"properties": {"b": {"items": {"items": {}}}}}}}
    (tmp_path / "deep.json").write_text(json.dumps(schema))
    deep = ("--schema", str(tmp_path / "deep.json"), "--max-guide-depth", "3")
    done = specguide("chat", *deep, stdin="hello\n")
    assert "than --max-guide-depth (3)" in done.stderr, done.stderr
    done = specguide("chat", "--num-pages", "2", stdin="hello\n")
    assert "lower --max-tokens" in done.stderr, done.stderr
    assert "give the KV cache more memory" in caplog.text and "num_pages" not in caplog.text


def test_ctrl_c_stops_the_answer_and_not_the_chat(tmp_path):
    schema = tmp_path / "long.json"
    schema.write_text(json.dumps({"type": "array", "items": {"type": "integer"}, "minItems": 300}))
    chat = subprocess.Popen(
        [*COMMAND, "chat", "--schema", str(schema), "--max-tokens", "1500"],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert chat.stdin and chat.stdout
    chat.stdin.write("count\n")
    chat.stdin.flush()
    assert os.read(chat.stdout.fileno(), 1) == b"["
    chat.send_signal(signal.SIGINT)
    _, told = chat.communicate("/quit\n", timeout=60)
    assert chat.returncode == 0 and told.strip() == "stopped"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--schema", __file__], "not valid JSON"),
        (["--tools", "nowhere.json"], "cannot read nowhere.json"),
        (["--tools", str(EXAMPLES / "person.json")], "list of tool definitions"),
        (["--url", "http://127.0.0.1:9/v1"], "is it running"),
        (["--url", "http://127.0.0.1:9/v1", "--tree", "1,2,3"], "--tree is for an engine in this"),
        (["--url", "http://127.0.0.1:9/v1", "--lora", "sql"], "is named by --model"),
        (["--lora", "sql"], "which has none: give it to the engine in --lora-modules"),
        (["--lora", "sql", "--lora-modules", "a=x", "b=y"], "which has 'a', 'b'"),
    ],
)
def test_a_mistake_in_chat_is_one_line_and_exit_code_2(args, words):
    done = specguide("chat", *args, stdin="hello\n")
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, (
        done.stderr
    )
