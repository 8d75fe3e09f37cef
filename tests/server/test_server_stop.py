"""A server that is told to stop: what is under way has its time and is told its end, and the
process is soon gone."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time

import httpx
from live_server import read_all
from service import STUCK, serving

from benchmarks.attacks.bodies import ENDLESS, chat, head, slow_grammar

DRAIN_S = 1.0
SLACK_S = 2.0
BUSY_S = 3.0
"""Seconds that a machine of many tests may add."""


def status(one: socket.socket) -> bytes:
    """The status line of the answer to a request on a connection that is kept."""
    one.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
    found = b""
    while not found.endswith(b"}"):
        found += one.recv(4096)
    return found[9:12]


def events(stream: bytes) -> list[str]:
    return [line[6:] for line in stream.decode().splitlines() if line.startswith("data: ")]


def test_it_ends_in_time_under_any_load():
    with (
        serving("--drain-s", str(DRAIN_S), command=STUCK) as server,
        contextlib.ExitStack() as stack,
    ):
        open_one = lambda text: stack.enter_context(server.connect(text))  # noqa: E731
        streams = [open_one(head(chat(**ENDLESS, stream=True))) for _ in range(4)]
        started = [one.recv(1) for one in streams]
        waiting = open_one(head(chat(**ENDLESS, stream=True)))
        whole = open_one(head(chat(**ENDLESS)))
        open_one(head(slow_grammar(0)))
        unread = open_one(head(chat(**ENDLESS, stream=True, n=8)))
        kept = open_one(b"")
        assert status(kept) == b"200"
        tokenize = head(b'{"prompt": "a"}').replace(b"/v1/chat/completions", b"/tokenize")
        stuck = [open_one(tokenize) for _ in range(40)]  # in threads, which are then all taken
        half_a_body = open_one(head(chat())[:-10])
        half_a_header = open_one(b"POST /v1/completions HTTP/1.1\r\nHost:")
        time.sleep(0.3)
        stuck += [open_one(tokenize) for _ in range(4)]  # whose bodies, too, wait for a thread
        time.sleep(0.3)
        since_s = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert (
            read_all(half_a_body).startswith(b"HTTP/1.1 503")
            and time.monotonic() - since_s < DRAIN_S + BUSY_S
        )
        refused = httpx.post(
            f"{server.url}/v1/chat/completions",
            content=chat(),
            headers={"Content-Type": "application/json"},
        )
        assert refused.status_code == 503 and refused.json()["error"]["code"] == "shutting_down"
        assert "Retry-After" in refused.headers
        assert status(kept) == b"503"
        told = [events(first + read_all(one)) for first, one in zip(started, streams, strict=True)]
        answers = [read_all(one) for one in (waiting, whole)]
        code, took_s, errors = server.ended(since_s)
        assert (
            code == 0
            and DRAIN_S - 0.2 < took_s < DRAIN_S + SLACK_S + BUSY_S
            and "Traceback" not in errors
        )
        for lines in told:
            assert (
                lines[-1] == "[DONE]"
                and json.loads(lines[-2])["choices"][0]["finish_reason"] == "abort"
            )
        for answer in answers:
            assert b" 503 " in answer[:20] or b'"abort"' in answer, answer[:300]
        assert read_all(half_a_header) == b"" and stuck and unread


def begun(server, path: str, **fields) -> socket.socket:
    text = head(json.dumps(fields).encode()).replace(b"/v1/chat/completions", path.encode())
    return server.connect(text)


def test_what_is_cut_off_is_an_error_where_an_api_has_no_other_word_for_it():
    """An answer of /v1/messages must not seem to be whole."""
    form = {"type": "json_schema", "schema": {"type": "string", "pattern": "^[a-z]{1500}$"}}
    message = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1900}
    message |= {"output_config": {"format": form}}
    asked = {"input": "a", "max_output_tokens": 1900, "text": {"format": {**form, "name": "x"}}}
    with serving("--drain-s", "0.2") as server:
        paths = {"/v1/messages": message, "/v1/responses": asked}
        streams = [begun(server, path, **body, stream=True) for path, body in paths.items()]
        wholes = [begun(server, path, **body) for path, body in paths.items()]
        firsts = [stream.recv(1) for stream in streams]
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        of_message, of_response = map(read_all, streams)
        answers = [*map(read_all, wholes)]
    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers), answers
    assert json.loads(events(of_message)[-1])["type"] == "error" and firsts
    error, failed = map(json.loads, events(of_response)[-2:])
    assert error["type"] == "error" and error["code"] == "shutting_down"
    assert failed["type"] == "response.failed" and failed["response"]["status"] == "failed"


def test_what_ends_in_its_time_is_answered_and_nothing_is_waited_for_then():
    with serving("--drain-s", "1e10") as server:  # longer than the operating system can wait
        idle = server.connect()
        assert status(idle) == b"200"
        stream = server.connect(head(chat(max_tokens=40, ignore_eos=True, stream=True)))
        first = stream.recv(1)
        since_s = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        lines = events(first + read_all(stream))
        assert (
            lines[-1] == "[DONE]"
            and json.loads(lines[-2])["choices"][0]["finish_reason"] == "length"
        )
        code, took_s, errors = server.ended(since_s)
        assert code == 0 and took_s < 12 and "Traceback" not in errors
        assert read_all(idle) == b""


def test_a_second_signal_ends_at_once():
    with serving("--drain-s", "60") as server:
        stream = server.connect(head(chat(**ENDLESS, stream=True)))
        stream.recv(1)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.process.poll() is None
        since_s = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        code, took_s, _ = server.ended(since_s)
        assert code == 128 + signal.SIGINT and took_s < BUSY_S
