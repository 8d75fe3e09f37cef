"""What an ingress, and the proxy before it, answer by themselves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse

from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.serve_ray.exchange import AnswerBody, AnswerHead, ForwardedRequest, answer
from specguide.serve_ray.proxy import ProxyAnswers
from specguide.serve_ray.replica_metrics import with_replica
from specguide.server.app import create_app
from specguide.server.config import Exposure, ServerConfig
from specguide.server.http.errors import ApiError

EXAMPLES = Path(__file__).parents[2] / "examples/ray"


async def _text_of_the_proxy(scope, receive, send):
    await PlainTextResponse("Path not found", 404)(scope, receive, send)


async def _without_an_answer(scope, receive, send):
    pass


async def _failing(scope, receive, send):
    raise RuntimeError("the ingress has died")


@pytest.mark.parametrize("proxy", [_text_of_the_proxy, _without_an_answer, _failing])
def test_what_the_proxy_says_by_itself_is_an_error_of_the_api(proxy):
    client = TestClient(ProxyAnswers(proxy))
    answer = client.post("/v1/messages", headers={"x-request-id": "mine"})
    assert answer.status_code == 503 and answer.json()["type"] == "error"
    assert answer.headers["x-request-id"] == "mine" and answer.headers["retry-after"]
    assert client.get("/ready").json()["error"]["code"] == "ingress_lost"
    if proxy is _text_of_the_proxy:
        assert client.get("/-/routes").text == "Path not found"


@pytest.mark.parametrize(("status", "body"), [(200, "specguide_healthy 1"), (404, None)])
def test_answers_of_an_ingress_pass_the_proxy(status, body):
    answer = JSONResponse({"error": {}}, status) if body is None else PlainTextResponse(body)
    assert TestClient(ProxyAnswers(answer)).get("/metrics").content == answer.body


def test_a_stream_that_ends_in_the_middle_is_not_begun_again():
    async def cut(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("the ingress has died")

    with pytest.raises(RuntimeError, match="has died"):
        TestClient(ProxyAnswers(cut)).get("/v1/models")


def test_figures_of_replicas_are_one_page():
    page = '# HELP x_total Some\n# TYPE x_total counter\nx_total{{kind="a"}} {}\n'
    merged = with_replica([("one", page.format(1)), ("two", page.format(2))])
    assert merged.count("# TYPE x_total counter") == 1
    assert 'x_total{kind="a",replica="one"} 1.0' in merged
    assert 'x_total{kind="a",replica="two"} 2.0' in merged


@pytest.mark.parametrize("path", ["/metrics", "/llm/metrics"])
@pytest.mark.parametrize("is_protected", [False, True])
def test_figures_are_as_open_under_the_path_of_a_proxy(path, is_protected):
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.ingress import Ingress

    class NoReplicas:
        answer = SimpleNamespace(options=lambda stream: None)

        def broadcast(self, _: str):
            return self

        async def results_async(self, **_: object):
            return []

    exposure = Exposure(root_path="/llm", protect_metrics=is_protected)
    ingress = Ingress(NoReplicas(), ServerConfig("m", api_keys=("key",), exposure=exposure))

    async def app(scope, receive, send):
        await (await ingress(Request(scope)))(scope, receive, send)

    client = TestClient(app)
    assert client.get(path, headers={"x-api-key": "key"}).status_code == 200
    assert client.get(path).status_code == (401 if is_protected else 200)


@pytest.mark.parametrize("path", ["/metrics", "/v1/models", "/ready"])
@pytest.mark.parametrize("has_timed_out", [False, True])
def test_where_no_replica_is_there_all_paths_say_so(path, has_timed_out):
    exceptions = pytest.importorskip("ray.serve.exceptions", reason="needs Ray Serve")
    from specguide.serve_ray.ingress import Ingress

    gone = exceptions.DeploymentUnavailableError("replicas")
    cause = TimeoutError() if has_timed_out else gone

    class NoReplicas:
        """Asked for figures, or for an answer."""

        options = broadcast = remote = lambda self, *_, **__: self
        cancel = lambda self: None  # noqa: E731

        @property
        def answer(self):
            return self

        async def results_async(self, **_):
            raise cause

        async def __aiter__(self):
            raise cause
            yield

    ingress = Ingress(NoReplicas(), ServerConfig("m"))

    async def app(scope, receive, send):
        await (await ingress(Request(scope)))(scope, receive, send)

    answer = TestClient(app).get(path)
    assert answer.status_code == 503 and answer.json()["error"]["code"] == "no_replica"


class WholeAnswer:
    async def __aiter__(self):
        yield AnswerHead(200, [(b"content-type", b"application/json")])
        yield AnswerBody(b"{}", is_whole=True)

    def cancel(self):
        pass


@pytest.mark.parametrize(("num_bytes", "status"), [(5 << 20, 200), (65 << 20, 413)])
async def test_bodies_with_images_reach_replicas(num_bytes, status):
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.ingress import Ingress

    asked = []
    method = SimpleNamespace(remote=lambda request: asked.append(request) or WholeAnswer())
    replicas = SimpleNamespace(answer=SimpleNamespace(options=lambda stream: method))
    ingress = Ingress(replicas, ServerConfig("m"))
    sent = []

    async def receive():
        return {"type": "http.request", "body": b" " * num_bytes}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    await (await ingress(Request(scope)))(scope, receive, send)
    assert sent[0]["status"] == status and len(asked) == (status == 200)


class EndlessAnswer:
    """Of a replica that has begun to answer."""

    async def __aiter__(self):
        yield AnswerHead(200, [(b"content-type", b"text/event-stream")])
        yield AnswerBody(b'data: {"choices": []}\n\n')
        await asyncio.Event().wait()

    def cancel(self):
        pass


async def test_an_ingress_that_stops_tells_those_under_way_and_those_that_come():
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.ingress import Ingress

    method = SimpleNamespace(remote=lambda _: EndlessAnswer())
    replicas = SimpleNamespace(answer=SimpleNamespace(options=lambda stream: method))
    ingress = Ingress(replicas, ServerConfig("m"))

    async def ask():
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"{}"}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
        await (await ingress(Request(scope)))(scope, receive, send)
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent)

    begun = asyncio.create_task(ask())
    await asyncio.sleep(0.1)
    stopping = asyncio.create_task(ingress.stop(0.2))
    await asyncio.sleep(0)
    status, body = await ask()
    assert status == 503 and json.loads(body)["error"]["code"] == "shutting_down"
    assert not begun.done()
    await stopping
    status, body = await begun
    assert status == 200 and b"shutting_down" in body and body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/v1/chat/completions", b"data: [DONE]\n\n"),
        ("/llm/v1/completions", b"data: [DONE]\n\n"),
        ("/v1/messages", b"}\n\n"),
    ],
)
def test_a_stream_whose_replica_is_gone_ends_as_streams_of_its_api_do(path, end):
    last = sent_of_broken(path, [b"data: {}\n\n"])[-1]["body"]
    assert b"gone" in last and last.endswith(end)
    assert last.startswith(b"event: error\n") == (path == "/v1/messages")


def test_a_response_whose_replica_is_gone_has_failed(client):
    asked = {"input": "Say a number", "stream": True, "max_output_tokens": 16}
    with client.stream("POST", "/v1/responses", json=asked) as answer:
        events = [piece + b"\n\n" for piece in answer.read().split(b"\n\n") if piece]
    whole = [json.loads(one.partition(b"data: ")[2]) for one in events]
    for num_events in (1, 4, len(events) - 1):
        told = sent_of_broken("/v1/responses", events[:num_events])[-1]["body"].split(b"\n\n")
        assert [one.partition(b"\n")[0] for one in told] == [
            *(b"event: error", b"event: response.failed", b"")
        ]
        error, failed = (json.loads(one.partition(b"data: ")[2]) for one in told[:2])
        assert error["code"] == "replica_lost" and error["sequence_number"] == num_events
        response = failed["response"]
        assert failed["sequence_number"] == num_events + 1 and response["status"] == "failed"
        assert response["error"]["code"] == "server_error"
        assert len(response["output"]) == (num_events == len(events) - 1)
        assert response["id"] == whole[0]["response"]["id"]


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream; charset=utf-8"])
def test_a_replica_that_is_gone_behind_the_head_of_its_answer_is_a_503(kind):
    start, body = sent_of_broken("/v1/chat/completions", [], kind)
    assert start["status"] == 503 and b"retry-after" in dict(start["headers"])
    assert json.loads(body["body"])["error"]["code"] == "replica_lost"


async def test_a_replica_that_is_gone_behind_a_whole_answer_is_no_loss():
    async def app(scope, receive, send):
        await JSONResponse("whole")(scope, receive, send)
        raise RuntimeError("gone")

    ingress = pytest.importorskip("specguide.serve_ray.ingress", reason="needs Ray Serve")
    sent = []

    async def send(message):
        sent.append(message)

    passed_on = ingress._PassedOn(send, "/v1/completions")
    with pytest.raises(RuntimeError) as caught:
        await passed_on.take(answer(app, ForwardedRequest({}, b"")))
    await passed_on.fail(ingress.error_of(caught.value), {"type": "http"}, None)
    start, body = sent
    assert start["status"] == 200 and body["body"] == b'"whole"' and not body["more_body"]


@pytest.fixture(scope="module")
def client():
    engine = AsyncEngine(Engine(EngineConfig()))
    with TestClient(create_app(engine, ServerConfig("small"))) as one:
        yield one


def sent_of_broken(path, pieces, kind=b"text/event-stream; charset=utf-8"):
    """The messages that are sent of an answer that breaks behind its first pieces."""
    ingress = pytest.importorskip("specguide.serve_ray.ingress", reason="needs Ray Serve")
    sent = []

    async def send(message):
        sent.append(message)

    async def begun():
        yield AnswerHead(200, [(b"content-type", kind)])
        for piece in pieces:
            yield AnswerBody(piece)
        raise ApiError(503, "gone", kind="server_error", code="replica_lost")

    async def main():
        passed_on = ingress._PassedOn(send, path)
        with pytest.raises(ApiError) as caught:
            await passed_on.take(begun())
        await passed_on.fail(caught.value, {"type": "http"}, None)

    asyncio.run(main())
    assert not sent[-1].get("more_body", False)
    return sent
