"""Connections whose client has sent all it will, or is gone; bodies that together are too much."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from live_server import Server, read_all, until

from benchmarks.attacks.bodies import ENDLESS, chat, head, post, prompted
from specguide.config import EngineConfig
from specguide.server.config import ServerConfig
from specguide.server.http.body_room import FREE_BYTES
from specguide.server.http.connection import most_connections, uvicorn_config

ROOM = 1 << 20
LIMITS = ServerConfig("small", max_bodies_bytes=ROOM, body_timeout_s=20.0)
SIZE = 300_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(EngineConfig(max_batch_size=4, max_model_len=2048), LIMITS, max_waiting=8)
    yield server
    server.stop()


def final(answer: bytes) -> bytes:
    """The answer behind those that say to go on."""
    while answer.startswith(b"HTTP/1.1 100"):
        answer = answer.partition(b"\r\n\r\n")[2]
    return answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
def test_a_client_that_sends_nothing_more_is_answered(server, stream, version):
    with server.connect(
        head(chat(max_tokens=30, ignore_eos=True, stream=stream)).replace(b"HTTP/1.1", version)
    ) as one:
        one.shutdown(socket.SHUT_WR)
        answer = final(read_all(one))
    assert answer.startswith(b"HTTP/1.1 200") and b'"length"' in answer, answer[:200]
    assert not stream or answer.rstrip().endswith((b"[DONE]", b"0"))


def test_requests_behind_each_other_are_all_answered(server):
    """Also where empty lines are between them, which old clients send behind a body."""
    get = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    with server.connect(b"\r\n" + head(chat()) + get + head(chat()) + b"\r\n\r\n" + get) as one:
        one.sendall(b"\r")
        one.shutdown(socket.SHUT_WR)
        answer = read_all(one)
    assert answer.count(b"HTTP/1.1 200") == 4 and answer.count(b'"finish_reason"') == 2
    assert b"HTTP/1.1 400" not in answer


@pytest.mark.parametrize("target", ["http://x/health", "HTTP://x:80/health?a=b"])
def test_a_target_in_absolute_form(server, target):
    with server.connect(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) as one:
        one.shutdown(socket.SHUT_WR)
        assert read_all(one).startswith(b"HTTP/1.1 200")


def test_a_request_behind_one_that_is_framed_twice_is_not_read(server):
    body = chat()
    twice = b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json"
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    get = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with server.connect(request % (twice, len(body), body) + get) as one:
        answer = read_all(one)  # the server closes
    assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("header_timeout_s", [0.5, 60.0])
def test_a_connection_waits_for_its_next_request_as_long_as_for_its_first(server, header_timeout_s):
    limits = ServerConfig("small", header_timeout_s=header_timeout_s)
    assert uvicorn_config(server.app, limits).timeout_keep_alive == header_timeout_s


def test_half_a_body_is_not_waited_for(server):
    start = time.monotonic()
    with server.connect(head(chat())[:-5]) as one:
        one.shutdown(socket.SHUT_WR)
        assert read_all(one) == b"" and time.monotonic() - start < 10


def test_a_client_that_sends_its_whole_body_first_reads_why_it_is_refused(server):
    """As clients of asyncio do, which are told of a reset instead of the answer."""

    async def ask():
        async with httpx.AsyncClient(base_url=server.url) as client:
            return await client.post("/v1/chat/completions", content=b" " * (16 << 20))

    assert asyncio.run(ask()).status_code == 413
    until(lambda: not server._server.server_state.connections)


def test_a_client_that_leaves_within_its_body_has_sent_no_bad_request(server):
    route = "/v1/chat/completions"
    bad, left = counted(server, 400, route), counted(server, 499, route)
    with server.connect(head(chat())[:-5]):
        time.sleep(0.2)
    until(lambda: counted(server, 499, route) == left + 1)
    assert counted(server, 400, route) == bad


def test_a_client_that_leaves_before_its_answer_has_a_line_in_the_access_log(server, caplog):
    log = logging.getLogger("uvicorn.access")
    log.addHandler(caplog.handler)
    with caplog.at_level("INFO", log.name):
        with server.connect(head(chat(**ENDLESS))):
            until(lambda: server.engine.stats().num_running == 1)
        until(lambda: any(' "POST ' in message for message in caplog.messages))
        httpx.get(f"{server.url}/health")
        until(lambda: "/health" in caplog.messages[-1])
    log.removeHandler(caplog.handler)
    # the line of an answer may be written behind the test that asked for it
    left, health = [message.partition(' - "')[2] for message in caplog.messages][-2:]
    assert left == 'POST /v1/chat/completions HTTP/1.1" 499'
    assert health == 'GET /health HTTP/1.1" 200'


def counted(server, code: int, route: str) -> int:
    """Number of answers so far."""
    sample = f'specguide_http_responses_total{{code="{code}",route="{route}"}} '
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(sample))


CHUNKED = b"%b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "status", "fault"),
    [
        (b"no HTTP\r\n\r\n", 400, "illegal request line"),
        (b"GET /health HTTP/1.1\r\n\r\n", 400, "Missing mandatory Host: header"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "bad Content-Length"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "Transfer-Encoding"),
        (
            CHUNKED % b"POST /tokenize" + b"a\r\n" + b"x" * 12,
            400,
            "footer: 'xx' (expected '\\r\\n'",
        ),
        (b"a" * 9000 + b"\r\n\r\n", 400, "aaa …"),
        (CHUNKED % b"POST /tokenize" + b"no size\r\n", 400, "chunk header: 'no size\\r\\n'"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_why_it_is_no_http_is_told(server, request_, status, fault):
    with server.connect(request_) as one:
        head, _, body = read_all(one).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert fault in json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    ("request_", "route"),
    [(b"no HTTP\r\n\r\n", "other"), (CHUNKED % b"POST /tokenize" + b"no size\r\n", "/tokenize")],
    ids=["head", "body"],
)
def test_what_is_no_http_is_counted(server, request_, route):
    before, left = counted(server, 400, route), counted(server, 499, route)
    with server.connect(request_) as one:
        assert read_all(one).startswith(b"HTTP/1.1 400")
    until(lambda: counted(server, 400, route) == before + 1)
    assert counted(server, 499, route) == left


def test_what_is_no_http_behind_an_answer_ends_the_connection(server, caplog):
    with server.connect(CHUNKED % b"GET /health") as one:
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.sendall(b"no size\r\n")
        assert read_all(one) == b""
    assert all(record.levelno < logging.ERROR for record in caplog.records)


def test_connections_that_are_refused_are_counted():
    server = Server(EngineConfig(), ServerConfig("small", max_connections=2))
    with server.connect(), server.connect():
        time.sleep(0.2)
        for _ in range(3):
            with server.connect() as one:
                assert read_all(one).startswith(b"HTTP/1.1 503")
    until(lambda: counted(server, 503, "other") == 3)
    server.stop()


def test_an_offer_of_another_protocol_is_not_taken_and_not_logged(server, caplog):
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAA"}
    offer["Content-Type"] = "application/json"
    log = logging.getLogger("uvicorn.error")
    log.addHandler(caplog.handler)
    with caplog.at_level("WARNING", log.name):
        answer = httpx.post(f"{server.url}/v1/chat/completions", content=chat(), headers=offer)
    log.removeHandler(caplog.handler)
    assert answer.status_code == 200 and answer.json()["choices"]
    assert not caplog.records


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["closed", "half-closed, then gone"])
def test_a_client_that_is_gone_is_noticed(server, stream, how):
    one = server.connect(head(chat(**ENDLESS, stream=stream)))
    until(lambda: server.engine.stats().num_running == 1)
    assert httpx.get(f"{server.url}/load").json() == {"server_load": 1}
    before = server.engine.stats().output_tokens
    if how != "closed":
        one.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
    one.close()
    until(lambda: server.engine.num_unfinished == 0)
    assert server.engine.stats().output_tokens - before < 1400


def test_the_standard_library_reads_an_answer_after_closing_its_side(server):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/v1/chat/completions", chat(), {"Content-Type": "application/json"})
    connection.sock.shutdown(socket.SHUT_WR)
    answer = connection.getresponse()
    assert answer.status == 200 and json.loads(answer.read())["choices"]


@pytest.mark.parametrize(
    ("soft", "hard", "then", "found"),
    [
        (1024, 4096, 1024, 300),
        (100, 4096, 364, 300),
        (100, -1, 364, 300),
        (-1, -1, -1, 300),
        (100, 200, 200, 136),
        (40, 40, 40, 1),
    ],
)
def test_files_that_may_be_open_bound_the_connections(monkeypatch, caplog, soft, hard, then, found):
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    assert most_connections(300) == found
    assert limits[-1] == (then, hard)
    assert ("ulimit -n" in caplog.text) == (found < 300)


def large(num_bytes: int) -> bytes:
    return head(chat(user="x" * num_bytes))


def test_slow_bodies_make_room_for_each_other_and_hold_up_nobody(server):
    with contextlib.ExitStack() as stack:
        slow = []
        for number in range(12):
            slow.append(stack.enter_context(server.connect(large(SIZE + 1000 * number)[:-10])))
        until(lambda: sum(body.num_read > SIZE for body in server.app.state.bodies._bodies) == 4)
        assert server.app.state.bodies._num_bytes <= ROOM
        assert post(server.url, chat()).status_code == 200
        assert post(server.url, chat(user="x" * 100_000)).status_code == 200
        refused = [one for one in slow if _has_answer(one)]
        assert len(refused) >= 8
        for one in refused:
            answer = read_all(one)
            assert (
                answer.startswith(b"HTTP/1.1 503")
                and b"too_many_bodies" in answer
                and b"retry-after: 1" in answer
            )
        for one in slow:
            if one not in refused:
                one.sendall(large(SIZE + 1000 * slow.index(one))[-10:])
                assert one.recv(20).startswith(b"HTTP/1.1 200")
    until(lambda: not server.app.state.bodies._bodies)
    assert server.app.state.bodies._num_bytes == 0


def _has_answer(one: socket.socket) -> bool:
    one.settimeout(0.2)
    try:
        return bool(one.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        one.settimeout(30)


def test_small_bodies_need_no_room(server):
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect(large(SIZE)[:-10])) for _ in range(3)]
        small = [
            stack.enter_context(server.connect(large(FREE_BYTES // 2)[:-10])) for _ in range(60)
        ]
        until(lambda: len(server.app.state.bodies._bodies) == 63)
        assert not any(_has_answer(one) for one in (*slow, small[0], small[-1]))


def test_samples_that_there_is_never_room_for(server):
    for body, param, words in (
        (chat(n=64), "n", "n = 64 is more than the 12"),
        (prompted("a", n=13), "n", "n = 13"),
        (prompted(["a"] * 4, n=4), "n", "n = 4 for each of 4 prompts"),
        (prompted(["a"] * 20), "prompt", "for each of 20 prompts"),
    ):
        answer = post(server.url, body)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param) and words in error["message"]
    answer = httpx.post(
        f"{server.url}/v1/responses", json={"model": "small", "input": "Hi", "max_output_tokens": 2}
    )
    assert answer.status_code == 200
