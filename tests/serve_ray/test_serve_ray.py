"""Two replicas on Ray Serve, on this machine's CPU: what clients see, and what they see of one that
is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from live_server import until
from service import serving

from benchmarks.services.process import descendants_of, is_alive

pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")

SHAPES = {"a": "integer", "b": "boolean", "c": "null"}


@pytest.fixture(scope="module")
def service():
    options = ("--replicas", "2", "--replica-cpus", "0.5", "--drain-s", "20", "--log-requests")
    with serving(*options) as one:
        yield one


@pytest.fixture(scope="module")
def url(service):
    return service.url


@pytest.fixture()
def client(url):
    with httpx.Client(base_url=url, timeout=60) as one:
        yield one


def body(text: str, **fields):
    messages = [{"role": "user", "content": text}]
    return {"model": "small", "messages": messages, "temperature": 0, "max_tokens": 24, **fields}


def guided(name: str):
    schema = {"type": "object", "properties": {name: {"type": SHAPES[name]}}, "required": [name]}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


def ask(client, **fields):
    return client.post("/v1/chat/completions", json=body(**fields))


def said_by(lines):
    """The text of a stream, and whether it came to its end."""
    lines = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    told = [json.loads(line) for line in lines if line != "[DONE]"]
    error = next((one["error"] for one in told if "error" in one), None)
    assert lines[-1:] == ["[DONE]"], "also behind an error"
    if error is not None:
        return None, error
    pieces = [one["choices"] for one in told]
    return "".join(each[0]["delta"].get("content") or "" for each in pieces if each), None


def figures(client, name):
    """The sum over a figure's labels, by replica."""
    sums = Counter()
    pattern = rf'^specguide_{name}\{{.*?replica="(\w+)".*\}} (\S+)$'
    for replica, figure in re.findall(pattern, client.get("/metrics").text, re.MULTILINE):
        sums[replica] += float(figure)
    return sums


def finished(client):
    """Number of requests that have ended, by replica."""
    return figures(client, "requests_finished_total")


def test_answers_are_those_of_a_server(client):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/v1/models").json()["data"][0]["id"] == "small"
    answer = ask(client, text="Say a number", response_format=guided("a"))
    assert answer.status_code == 200 and len(answer.headers.get_list("x-request-id")) == 1
    whole = answer.json()["choices"][0]["message"]["content"]
    assert type(json.loads(whole)["a"]) is int
    streamed = body("Say a number", response_format=guided("a"), stream=True)
    with client.stream("POST", "/v1/chat/completions", json=streamed) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert said_by(answer.iter_lines()) == (whole, None)


def test_errors_keep_their_status_and_their_words(client):
    assert ask(client, text="x", max_tokens=-1).json()["error"]["param"] == "max_tokens"
    assert client.post("/v1/chat/completions", content=b"{").status_code == 400
    assert client.post("/v1/chat/completions", json={"model": "other", "messages": []}).is_error
    assert client.get("/nothing").status_code == 404
    assert client.get("/v1/chat/completions").status_code == 405
    large = client.post("/v1/messages", content=b"x" * (5 << 20))
    assert large.status_code == 413 and large.json()["error"]["type"] == "request_too_large"
    assert client.post("/v1/messages", json={"max_tokens": 1}).json()["type"] == "error"


def test_what_a_replica_has_counts(client):
    """Turns of a conversation, and requests of a schema, go to one replica."""
    for requests in (
        [{"text": "Tell me. " * 120 + "More. " * turn} for turn in range(4)],
        [{"text": f"{n}", "response_format": guided("b")} for n in range(4)],
    ):
        before = finished(client)
        assert all(ask(client, **request, max_tokens=12).is_success for request in requests)
        until(lambda before=before: (finished(client) - before).total() == 4)
        assert list((finished(client) - before).values()) == [4]


def test_a_client_that_leaves_takes_its_request_along(client):
    long = body("Count", stream=True, max_tokens=1500, ignore_eos=True)
    with client.stream("POST", "/v1/chat/completions", json=long) as answer:
        next(answer.iter_lines())
    until(lambda: figures(client, "requests_unfinished").total() == 0, 20)


def test_requests_are_logged_where_they_are_answered(service, client):
    """By the engine, by the application over it, and by the ingress, which Ray's logs keep."""
    ok, wrong = ({"max_tokens": count} for count in (2, -1))
    bodies = {"ok": body("x", **ok), "wrong": body("x", **wrong), "large": "x" * (5 << 20)}
    for name, asked in bodies.items():
        client.post("/v1/chat/completions", json=asked, headers={"x-request-id": f"log-{name}"})
    until(lambda: set(logged(service)) >= {"log-ok", "log-wrong", "log-large"})
    told = logged(service)
    assert told["log-ok"]["output_tokens"] == 2
    assert told["log-wrong"]["status"] == 400 and told["log-wrong"]["param"] == "max_tokens"
    assert told["log-large"]["status"] == 413


def logged(service):
    """Lines of the log of requests, by the request's id."""
    pids = [*actors(service, "Ingress"), *actors(service)]
    texts = [Path(f"/proc/{pid}/fd/2").read_text() for pid in pids]
    lines = [json.loads(line) for line in "".join(texts).splitlines() if line.startswith("{")]
    return {line["external_id"]: line for line in lines}


def actors(service, name="EngineReplica"):
    """The processes of replicas, or of another deployment."""
    command = f"ray::ServeReplica:specguide:{name}"
    return [
        pid
        for pid in descendants_of(service.process.pid)
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(command.encode())
    ]


class Load:
    """Clients that ask until they are stopped, half of them for streams.

    told: errors of requests without an answer
    """

    num_clients = 6

    def __init__(self, url: str, texts: dict[str, str]) -> None:
        self.told, self.num_right, self.wrong, self._is_over = [], 0, [], False
        self._url, self._texts = url, list(texts.items())
        self._threads = [
            threading.Thread(target=self._ask, args=(n,)) for n in range(self.num_clients)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join(60)

    def _ask(self, number: int) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self._is_over:
                number += 1
                text, expected = self._texts[number % len(self._texts)]
                answer = ask(client, text=text, stream=number % 2 == 0)
                if answer.status_code != 200:
                    self.told.append(answer.json()["error"])
                    continue
                said, error = (
                    said_by(answer.text.splitlines())
                    if number % 2 == 0
                    else (answer.json()["choices"][0]["message"]["content"], None)
                )
                if error is not None:
                    self.told.append(error)
                elif said == expected:
                    self.num_right += 1
                else:
                    self.wrong.append((text, said))


def cores(pids):
    """The processes among `pids` that are an engine's."""
    comms = {pid: Path(f"/proc/{pid}/comm") for pid in pids}
    return [pid for pid, comm in comms.items() if comm.read_text().strip() == "specguide-core"]


def kill(load, pid, told):
    """Kill a process and check what becomes of the load. told: codes of errors of requests that
    were there"""
    num_told, num_right, family = len(load.told), load.num_right, [pid, *descendants_of(pid)]
    os.kill(pid, signal.SIGKILL)
    until(lambda: load.num_right >= num_right + 12, 60)
    until(lambda: not any(map(is_alive, family)), 20)
    errors = load.told[num_told:]
    assert len(errors) <= load.num_clients  # of each client one, at most, was there
    assert all(error["code"] in told for error in errors), errors
    assert not load.wrong


def test_a_death_costs_its_own_requests_alone_and_they_are_told(service, client):
    texts = {f"Say {number}": "" for number in range(5)}
    for text in texts:
        texts[text] = ask(client, text=text).json()["choices"][0]["message"]["content"]
    load = Load(service.url, texts)
    try:
        until(lambda: load.num_right >= 6, 60)
        first, _ = replicas = actors(service)
        # Its actor ends too, which is what a request is told that came to it in between.
        kill(load, cores(descendants_of(first))[0], ("engine_failed", "replica_lost"))
        until(lambda: not is_alive(first), 20)
        until(lambda: len(figures(client, "requests_unfinished")) == 2, 180)
        kill(load, replicas[1], ("replica_lost",))
    finally:
        load.stop()


def test_a_signal_lets_requests_end(service):
    """The last one, since nothing is left."""
    family = descendants_of(service.process.pid)
    with httpx.Client(base_url=service.url, timeout=60) as client:
        long = body("Count", stream=True, max_tokens=150, ignore_eos=True)
        with client.stream("POST", "/v1/chat/completions", json=long) as answer:
            lines = answer.iter_lines()
            next(lines)
            service.process.terminate()
            until(lambda: client.get("/ready").status_code == 503, 5)
            assert ask(client, text="x").json()["error"]["code"] == "shutting_down"
            assert said_by(lines)[1] is None
    code, _, errors = service.ended(time.monotonic())
    assert code == 0 and "Traceback" not in errors, errors
    until(lambda: not any(map(is_alive, family)), 20)
