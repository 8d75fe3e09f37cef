"""A service of several processes: one that dies takes along what is its own, and the others
go on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import httpx
import pytest
from live_server import Server, until
from service import FAILING, Service, serving

from benchmarks.services.checked_clients import (
    PROMPTS,
    CheckedClients,
    asked,
    complete,
    is_ready,
    references,
    text_of,
)
from benchmarks.services.process import CORE, descendants_of, is_alive
from specguide import SpecConfig
from specguide.config import EngineConfig
from specguide.server.config import ServerConfig


@pytest.fixture(scope="module")
def service():
    """Its engine fails when it is asked for (`fail`)."""
    options = ("--api-servers", "2", "--restart", "--drain-s", "5", "--max-batch-size", "16")
    with serving(*options, command=FAILING) as service:
        yield service


def fail(service: Service) -> httpx.Response:
    return complete(service.url, list(range(100, 113)))


@pytest.fixture(scope="module")
def expected(service) -> dict[str, str]:
    return references(service.url)


def test_fronts_that_die_take_their_own_requests_along(service, expected):
    with CheckedClients(service, expected) as load:
        load.go_on(6)
        for _ in range(2):
            service.kill_front()
            load.go_on(6)
    assert not load.wrong and set(load.statuses) <= {200, 0}
    assert load.statuses.count(0) <= 2 * 6, load.statuses
    assert "front" in service.errors and "SIGKILL" in service.errors


@pytest.mark.slow
def test_a_stream_of_the_other_front_goes_on(service):
    """Of two streams, on connections of their own until both fronts have one, one survives."""
    (core,) = service.pids(CORE)
    with contextlib.ExitStack() as stack:
        lines = []
        for prompt in PROMPTS[:12]:
            body = asked(prompt, stream=True, max_tokens=400)
            client = stack.enter_context(httpx.Client(timeout=60))
            stream = client.stream("POST", f"{service.url}/v1/completions", json=body)
            lines.append(stack.enter_context(stream).iter_lines())
        for each in lines:
            next(each)
        service.kill_front()
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
def test_a_core_that_dies_is_told_and_followed_by_another(service, expected):
    with CheckedClients(service, expected) as load:
        load.go_on(6)
        stream = httpx.Client(timeout=60).stream(
            "POST", f"{service.url}/v1/completions", json=asked("x", stream=True, max_tokens=900)
        )
        with stream as answer:
            lines = answer.iter_lines()
            next(lines)
            service.kill_core()
            told = list(lines)
        assert "engine_failed" in "".join(told) and "SIGKILL" in "".join(told)
        until(lambda: is_ready(service.url), 120)
        load.go_on(6)
    assert not load.wrong and set(load.statuses) <= {200, 503}, set(load.statuses)


def test_metrics_and_requests_of_all_fronts(service):
    answers = [httpx.get(f"{service.url}/metrics").text for _ in range(6)]
    names = ("specguide_output_tokens_total ", "specguide_healthy 1.0")
    assert all(name in answer for answer in answers for name in names)
    before = [num_answers(answer) for answer in answers]
    assert before == list(range(before[0], before[0] + 6)), "any front tells what all have answered"
    service.kill_front()
    assert num_answers(httpx.get(f"{service.url}/metrics").text) == before[-1] + 1
    for _ in range(4):
        bad = complete(service.url, "x", guided_regex="(a")
        assert bad.status_code == 400 and bad.json()["error"]["param"], bad.text
        chosen = complete(service.url, "x", guided_choice=["left", "right"], ignore_eos=False)
        assert text_of(chosen) in ("left", "right")


def test_an_engine_that_fails_is_followed_where_it_is_asked_for(service):
    num_before = service.errors.count("serving again")
    failed = fail(service)
    assert failed.status_code == 503 and "thirteen" in failed.text
    until(lambda: service.errors.count("serving again") > num_before and is_ready(service.url), 60)
    assert complete(service.url, "fine").status_code == 200


def test_a_port_that_is_taken(service):
    taken = Service("--port", str(service.port))
    code, _, errors = taken.ended(time.monotonic())
    assert code == 2 and f"port {service.port}" in errors and "Traceback" not in errors


def num_answers(metrics: str) -> int:
    """HTTP answers of all kinds."""
    name = "specguide_http_responses_total"
    lines = [line for line in metrics.splitlines() if line.startswith(name)]
    return sum(int(float(line.split()[-1])) for line in lines)


@pytest.mark.slow
def test_requests_are_logged_where_it_is_asked_for_and_nobody_outlives_who_is_killed():
    with serving("--log-requests") as service:
        named = {"x-request-id": "first"}
        body = asked("x", max_tokens=2)
        httpx.post(f"{service.url}/v1/completions", json=body, headers=named).raise_for_status()
        until(lambda: any(line.startswith("{") for line in service.lines))
        assert complete(service.url, "x", use_beam_search=True).status_code == 400
        until(lambda: sum(line.startswith("{") for line in service.lines) == 2)
        done, refused = [json.loads(line) for line in service.lines if line.startswith("{")]
        family = descendants_of(service.process.pid)
        assert len(family) >= 2
        service.process.kill()
        until(lambda: not any(map(is_alive, family)), 10)
    assert done["external_id"] == "first" and done["output_tokens"] == 2
    assert refused["status"] == 400 and refused["param"] == "use_beam_search"


@pytest.mark.slow
def test_an_engine_that_fails_is_told_and_not_followed():
    with serving(command=FAILING) as service:
        assert complete(service.url, "fine").status_code == 200
        failed = fail(service)
        assert failed.status_code == 503 and "thirteen" in failed.text
        refused = complete(service.url, "fine")
        assert refused.status_code == 503 and refused.json()["error"]["code"] == "engine_failed"
        assert "thirteen" in httpx.get(f"{service.url}/ready").json()["cause"]
        assert len(service.pids(CORE)) == 1 and service.process.poll() is None
        check_that_the_command_ends_with_its_core(service)


def check_that_the_command_ends_with_its_core(service):
    since_s = time.monotonic()
    os.kill(service.pids(CORE)[0], signal.SIGKILL)
    code, _, errors = service.ended(since_s)
    assert code == 1 and "ended by SIGKILL" in errors


@pytest.mark.slow
def test_a_model_that_is_not_there(tmp_path):
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
    server = Server(EngineConfig(spec=SpecConfig(), max_batch_size=16), ServerConfig("small"))
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
