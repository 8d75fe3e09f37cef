"""A service of several processes: one that dies takes along what is its own, and the others
go on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from live_server import Server, until
from service import Service, descendants_of, is_alive, serving

from specguide import SpecConfig
from specguide.config import EngineConfig
from specguide.server.config import ServerConfig

CORE, FRONT = "specguide-core", "specguide-front"
PROMPTS = [f"Tell me about the number {number}." for number in range(24)]
NUM_TOKENS = 24


def asked(prompt: str, **fields) -> dict:
    body = {"model": "small", "prompt": prompt, "max_tokens": NUM_TOKENS, "temperature": 0}
    return {**body, "ignore_eos": True, **fields}


def complete(url: str, prompt: str, **fields) -> httpx.Response:
    return httpx.post(f"{url}/v1/completions", json=asked(prompt, **fields), timeout=60)


def text_of(answer: httpx.Response) -> str:
    return answer.json()["choices"][0]["text"]


class Load:
    """Clients that ask one prompt after another, and check each answer against its prompt's.

    statuses: of all answers, 0 where a connection broke; wrong: what was answered wrongly
    """

    def __init__(self, service: Service, references: dict[str, str], num_clients: int = 6) -> None:
        self._service, self._references = service, references
        self.statuses: list[int] = []
        self.wrong: list[str] = []
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(num_clients)
        self._clients = [self._pool.submit(self._run, number) for number in range(num_clients)]

    def _run(self, number: int) -> None:
        while not self._is_over.is_set():
            prompt = PROMPTS[number % len(PROMPTS)]
            number += 5
            status = 0
            with contextlib.suppress(httpx.HTTPError):
                answer = complete(self._service.url, prompt)
                status = answer.status_code
                if status == 200 and text_of(answer) != self._references[prompt]:
                    self.wrong.append(text_of(answer))
                if status == 503:
                    self.wrong += [] if answer.headers.get("Retry-After") else [answer.text]
                    time.sleep(0.1)
            self.statuses.append(status)

    def go_on(self, num_answers: int) -> None:
        """Until so many more good answers have come."""
        before = self.statuses.count(200)
        until(lambda: self.statuses.count(200) >= before + num_answers, 60)

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for client in self._clients:
            client.result()
        self._pool.shutdown()


@pytest.fixture(scope="module")
def service():
    with serving("--api-servers", "2", "--restart", "--drain-s", "5") as service:
        yield service


@pytest.fixture(scope="module")
def references(service) -> dict[str, str]:
    """The answer to each prompt, asked alone."""
    return {prompt: text_of(complete(service.url, prompt)) for prompt in PROMPTS}


def kill_front(service: Service) -> None:
    """One of them; waits until another one listens."""
    num_before = service.errors.count("serving on")
    os.kill(service.pids(FRONT)[0], signal.SIGKILL)
    until(lambda: service.errors.count("serving on") > num_before, 60)


def kill_core(service: Service) -> None:
    """Waits until it is gone."""
    (core,) = service.pids(CORE)
    os.kill(core, signal.SIGKILL)
    until(lambda: not is_alive(core), 10)


def is_ready(service: Service) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{service.url}/ready", timeout=5).status_code == 200
    return False


def test_fronts_that_die_take_their_own_requests_along(service, references):
    with Load(service, references) as load:
        load.go_on(6)
        for _ in range(3):
            kill_front(service)
            load.go_on(6)
    assert not load.wrong and set(load.statuses) <= {200, 0}
    assert load.statuses.count(0) <= 3 * 6, load.statuses
    assert "front" in service.errors and "SIGKILL" in service.errors


@pytest.mark.slow
def test_a_stream_of_the_other_front_goes_on(service, references):
    """Of two streams, on connections of their own until both fronts have one, one survives."""
    (core,) = service.pids(CORE)
    with contextlib.ExitStack() as stack:
        lines = []
        for prompt in PROMPTS[:12]:
            body = asked(prompt, stream=True, max_tokens=300)
            client = stack.enter_context(httpx.Client(timeout=60))
            stream = client.stream("POST", f"{service.url}/v1/completions", json=body)
            lines.append(stack.enter_context(stream).iter_lines())
        for each in lines:
            next(each)
        kill_front(service)
        ends = [last_line(each) for each in lines]
    assert 0 < ends.count("data: [DONE]") < 12, ends
    assert service.pids(CORE) == [core]
    until(lambda: "requests_unfinished 0.0" in httpx.get(f"{service.url}/metrics").text)


def last_line(lines) -> str:
    last = ""
    with contextlib.suppress(httpx.HTTPError):
        for line in lines:
            last = line or last
    return last


@pytest.mark.slow
def test_a_core_that_dies_is_told_and_followed_by_another(service, references):
    with Load(service, references) as load:
        load.go_on(6)
        for _ in range(2):
            stream = httpx.Client(timeout=60).stream(
                "POST",
                f"{service.url}/v1/completions",
                json=asked("x", stream=True, max_tokens=900),
            )
            with stream as answer:
                lines = answer.iter_lines()
                next(lines)
                kill_core(service)
                told = list(lines)
            assert "engine_failed" in "".join(told) and "SIGKILL" in "".join(told)
            until(lambda: is_ready(service), 60)
            load.go_on(6)
    assert not load.wrong and set(load.statuses) <= {200, 503}, set(load.statuses)


def test_metrics_and_requests_of_all_fronts(service, references):
    answers = [httpx.get(f"{service.url}/metrics").text for _ in range(6)]
    names = ("specguide_output_tokens_total ", "specguide_healthy 1.0")
    assert all(name in answer for answer in answers for name in names)
    for _ in range(4):
        bad = complete(service.url, "x", guided_regex="(a")
        assert bad.status_code == 400 and bad.json()["error"]["param"], bad.text
        chosen = complete(service.url, "x", guided_choice=["left", "right"], ignore_eos=False)
        assert text_of(chosen) in ("left", "right")


def test_nobody_outlives_a_supervisor_that_is_killed():
    with serving() as service:
        family = descendants_of(service.process.pid)
        assert len(family) >= 2
        service.process.kill()
        until(lambda: not any(map(is_alive, family)), 10)


@pytest.mark.slow
def test_without_restart_the_command_ends_with_its_core():
    with serving() as service:
        since_s = time.monotonic()
        os.kill(service.pids(CORE)[0], signal.SIGKILL)
        code, _, errors = service.ended(since_s)
        assert code == 1 and "ended by SIGKILL" in errors and "Traceback" not in errors


@pytest.mark.slow
def test_a_port_that_is_taken_and_a_model_that_is_not_there(tmp_path):
    with serving() as service:
        taken = Service("--port", str(service.port))
        code, _, errors = taken.ended(time.monotonic())
        assert code == 2 and f"port {service.port}" in errors and "Traceback" not in errors
    missing = Service(str(tmp_path / "nothing"))
    code, _, errors = missing.ended(time.monotonic())
    assert code == 2 and "nothing" in errors and "Traceback" not in errors


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
CHAT = {"model": "small", "messages": [{"role": "user", "content": "Anna is 31. Who? 🌧 Grüße"}]}
BODIES = [
    ("completions", asked(["one two", "ü"], n=2, seed=4, temperature=0.9)),
    ("completions", asked("Once", stop=["e", "th"], max_tokens=60, logprobs=2)),
    ("completions", asked("Once", guided_regex="(ä|😀|日){4,8}", ignore_eos=False)),
    (
        "chat/completions",
        {**CHAT, "max_tokens": 30, "temperature": 0, "logprobs": True, "top_logprobs": 1},
    ),
    ("chat/completions", {**CHAT, "max_tokens": 60, "guided_json": SCHEMA, "temperature": 0}),
    ("chat/completions", {**CHAT, "max_tokens": 25, "n": 3, "seed": 2, "stop": ["a"]}),
]


@pytest.fixture(scope="module")
def in_process():
    """The same server in this process."""
    server = Server(EngineConfig(spec=SpecConfig(), max_batch_size=4), ServerConfig("small"))
    yield server
    server.stop()


def read(url: str, path: str, body: dict, *, stream: bool) -> list:
    """An answer's choices, of a stream its text by choice, without what each answer draws anew."""
    answer = httpx.post(f"{url}/v1/{path}", json={**body, "stream": stream}, timeout=60)
    assert answer.status_code == 200, answer.text
    if not stream:
        return answer.json()["choices"]
    texts: dict[int, str] = {}
    for line in answer.text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                text = choice.get("text") or choice.get("delta", {}).get("content") or ""
                texts[choice["index"]] = texts.get(choice["index"], "") + text
    return sorted(texts.items())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("number", range(len(BODIES)))
def test_answers_equal_those_of_one_process(service, in_process, number, stream):
    path, body = BODIES[number]
    expected = read(in_process.url, path, body, stream=stream)
    assert read(service.url, path, body, stream=stream) == expected
