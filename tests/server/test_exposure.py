"""How a server is seen from outside: keys, web pages, proxies, certificates, request ids, spans."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import subprocess
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
import uvloop
from fastapi.testclient import TestClient
from live_server import Server, until
from starlette.responses import Response
from uvicorn.logging import AccessFormatter

from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.engine.serving.served import EngineHealth
from specguide.errors import EngineClosed, EngineError, InvalidParams
from specguide.server.app import OTHER_PATHS, create_app
from specguide.server.config import Exposure, ServerConfig
from specguide.server.http.request_ids import RequestIds
from specguide.server.http.request_log import AccessLog, WithRequestId, log_config
from specguide.server.http.tls import check_tls
from specguide.server.processes.front import BoundedLoop

KEY = "a secret"


@pytest.fixture(scope="module")
def engine():
    return Engine(EngineConfig(max_batch_size=2))


def client_of(engine, keys=(KEY,), **exposure) -> TestClient:
    """A client of an application that is never started; only waits for tokens ask its engine."""
    config = ServerConfig("small", api_keys=keys, exposure=Exposure(**exposure))
    return TestClient(create_app(AsyncEngine(engine), config))


@pytest.fixture(scope="module")
def plain(engine):
    return client_of(engine)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": f"Bearer {KEY}"}, 200),
        ({"Authorization": f"bearer {KEY}"}, 200),
        ({"Authorization": f"BEARER  {KEY} "}, 200),
        ({"Authorization": KEY}, 401),
        ({"Authorization": "Bearer another"}, 401),
        ({"x-api-key": KEY}, 200),
        ({"x-api-key": "another"}, 401),
        ({"Authorization": "Bearer another", "x-api-key": KEY}, 401),
    ],
)
def test_keys(plain, headers, status):
    assert plain.get("/v1/models", headers=headers).status_code == status


@pytest.mark.parametrize("keys", [("",), (KEY, ""), KEY, (1,)])
def test_keys_that_anybody_could_guess_are_refused(keys):
    with pytest.raises(InvalidParams, match=r"API key is empty|must be a list of texts"):
        ServerConfig("small", api_keys=keys)


def test_metrics_are_open_or_not(engine, plain):
    behind_the_key = client_of(engine, protect_metrics=True)
    for path in ("/metrics", "/load"):
        assert plain.get(path).status_code == 200
        assert behind_the_key.get(path).status_code == 401
        assert behind_the_key.get(path, headers={"x-api-key": KEY}).status_code == 200
    assert behind_the_key.get("/health").status_code == 200


def test_the_load_is_a_number_while_the_engine_is_too_busy_to_tell(engine, plain, monkeypatch):
    monkeypatch.setattr(AsyncEngine, "stats", lambda _: None)
    monkeypatch.setattr(AsyncEngine, "num_unfinished", 3)
    answer = plain.get("/load")
    assert (answer.status_code, answer.json()) == (200, {"server_load": 3})
    monkeypatch.setattr(AsyncEngine, "health", EngineHealth(EngineError("it is gone")))
    assert plain.get("/load").status_code == 503


@pytest.mark.parametrize("cause", [EngineError("it is gone"), EngineClosed("it is gone")])
def test_who_looks_at_the_health_is_told_when_to_look_again(engine, monkeypatch, cause):
    health = property(lambda _: EngineHealth(cause))
    monkeypatch.setattr(AsyncEngine, "health", health)
    for path in ("/health", "/ready"):
        answer = client_of(engine).get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json() == {"status": "unhealthy", "cause": "it is gone"}


def test_request_ids(plain):
    made = [plain.get("/health").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1] and all(re.fullmatch("[0-9a-f]{32}", each) for each in made)
    assert plain.get("/v1/models").headers["x-request-id"]  # a refusal has one, too
    given = plain.get("/health", headers={"x-request-id": "job-7"})
    for name in ("x-request-id", "request-id"):
        assert given.headers.get_list(name) == ["job-7"]
    for odd in ("a b", "x" * 129, "é".encode()):
        assert plain.get("/health", headers={"x-request-id": odd}).headers["x-request-id"] != odd


def test_the_log_ends_its_lines_with_the_requests_id(caplog):
    caplog.set_level(logging.INFO, "uvicorn.access")
    form = log_config()["formatters"]["access"]["fmt"]
    app = AccessLog(RequestIds(Response()))
    with caplog.filtering(WithRequestId()):
        assert TestClient(app, client=("127.0.0.1", 1)).get("/", headers={"x-request-id": "job-7"})
    [record] = [one for one in caplog.records if one.name == "uvicorn.access"]
    line = AccessFormatter(form, use_colors=False).format(record)
    assert line.endswith('127.0.0.1:1 - "GET / HTTP/1.1" 200 OK job-7')


def test_the_engine_logs_requests_with_the_ids(caplog):
    server = Server(EngineConfig(max_batch_size=2), ServerConfig("small"))
    body, names = {"model": "small", "prompt": "One", "max_tokens": 2}, ["job-7", "job-8"]
    try:
        with caplog.at_level(logging.INFO, logger="specguide.requests"):
            for name in names:
                headers = {"x-request-id": name}
                httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=60)
    finally:
        server.stop()
    lines = [json.loads(one.message) for one in caplog.records if one.name == "specguide.requests"]
    assert [line["external_id"] for line in lines] == names


def test_what_is_refused_is_logged_with_the_cause_and_the_id(engine, caplog):
    client = client_of(engine, keys=())
    refused = ({"use_beam_search": True}, {"max_tokens": "many"}, {"guided_regex": "(a"})
    whole = {"model": "small", "prompt": "One"}
    bodies = [*(json.dumps(whole | wrong) for wrong in refused), "[" * 100_000, "0" * (5 << 20)]
    with caplog.at_level(logging.INFO, logger="specguide.refusals"):
        answers = [
            client.post(
                "/v1/completions",
                content=body,
                headers={"content-type": "application/json", "x-request-id": f"job-{number}"},
            )
            for number, body in enumerate(bodies)
        ]
    lines = [json.loads(one.message) for one in caplog.records if one.name == "specguide.refusals"]
    assert [line["external_id"] for line in lines] == [f"job-{i}" for i in range(len(bodies))]
    assert [line["status"] for line in lines] == [400, 400, 400, 400, 413]
    assert [line["error"] for line in lines] == [one.json()["error"]["message"] for one in answers]
    params = [line["param"] for line in lines]
    assert params == ["use_beam_search", "max_tokens", "guided_regex", None, None]


def test_a_path_or_a_method_that_there_is_not_says_what_there_is(engine):
    client = client_of(engine, keys=())
    for method, path, status, words in (
        ("GET", "/v1/nothing", 404, "/docs says"),
        ("GET", "/v1/completions", 405, "takes POST, not GET"),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status and words in answer.json()["error"]["message"]
        assert answer.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize("root", ["", "/llm"])
def test_a_path_of_another_engine_is_told_what_to_do(engine, root):
    client = client_of(engine, keys=(), root_path=root)
    answer = client.post(f"{root}/generate", json={"text": "x"})
    told = answer.json()["error"]["message"]
    assert answer.status_code == 404 and told.endswith("/generate: use /v1/completions")
    below = client.get(f"{root}/v1/responses/resp_1").json()["error"]["message"]
    assert below.endswith("/v1/responses/resp_1: nothing is stored here")
    assert "run-batch" in client.get(f"{root}/v1/batches").json()["error"]["message"]
    routed = {path.removeprefix(root) for path in client.app.openapi()["paths"]}
    assert routed & set(OTHER_PATHS) == {"/v1/responses"}  # below which nothing is stored


@pytest.mark.parametrize(
    "asked, meant",
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("//v1/completions", "/v1/completions"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/openai/deployments/small/chat/completions", "/v1/chat/completions"),
        ("/models", "/v1/models"),
    ],
)
@pytest.mark.parametrize("root", ["", "/llm"])
def test_a_path_with_a_wrong_beginning_is_told_the_right_one(engine, root, asked, meant):
    client = client_of(engine, keys=(), root_path=root)
    answer = client.post(root + asked, json={})
    assert answer.status_code == 404
    assert f"but at {root}{meant}:" in answer.text


def test_web_pages_of_some_origins_may_ask(engine):
    client = client_of(engine, allowed_origins=("https://one.example",))
    ask = {
        "Origin": "https://one.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    allowed = client.options("/v1/chat/completions", headers=ask)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://one.example"
    refused = client.options("/v1/models", headers={**ask, "Origin": "https://two.example"})
    assert "access-control-allow-origin" not in refused.headers
    without_key = client.get("/v1/models", headers={"Origin": "https://one.example"})
    assert without_key.status_code == 401  # and the page may read why
    assert without_key.headers["access-control-allow-origin"] == "https://one.example"


@pytest.mark.parametrize("given", [True, False])
def test_web_pages_may_send_cookies_or_not(engine, given):
    client = client_of(engine, (), allowed_origins=("*",), allow_credentials=given)
    answer = client.get("/health", headers={"Origin": "https://one.example", "Cookie": "a=b"})
    assert answer.headers.get("access-control-allow-credentials") == ("true" if given else None)


@pytest.mark.parametrize("prefix", ["", "/llm"])
def test_behind_a_proxy_that_strips_the_path_or_not(engine, prefix):
    client = client_of(engine, root_path="/llm")
    assert client.get(f"{prefix}/health").status_code == 200
    assert client.get(f"{prefix}/v1/models").status_code == 401
    assert client.get(f"{prefix}/v1/models", headers={"x-api-key": KEY}).status_code == 200
    page = client.get(f"{prefix}/").text
    assert 'href="playground/playground.css"' in page


def test_the_root_without_its_slash_leads_to_the_page(engine):
    answer = client_of(engine, root_path="/llm").get("/llm", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/llm/")


@pytest.mark.parametrize("path", ["llm", "/llm/", "//", "/"])
def test_root_paths_that_are_none(path):
    with pytest.raises(InvalidParams, match="root_path"):
        Exposure(root_path=path)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    names = "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    key = f"-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {paths[1]}"
    command = f"openssl req -x509 -days 1 {names} {key} -out {paths[0]}"
    subprocess.run(command.split(), check=True, capture_output=True)
    return paths


def test_https(certificate):
    exposure = Exposure(ssl_certfile=certificate[0], ssl_keyfile=certificate[1])
    server = Server(EngineConfig(max_batch_size=2), ServerConfig("small", exposure=exposure))
    try:
        url = f"https://127.0.0.1:{server.port}/v1/completions"
        trust = ssl.create_default_context(cafile=certificate[0])
        body = {"model": "small", "prompt": "One", "max_tokens": 8, "stream": True}
        answer = httpx.post(url, json=body, verify=trust, timeout=60)
        assert answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n")
    finally:
        server.stop()


def test_who_does_not_begin_to_encrypt_is_not_waited_for(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    async def silent() -> float:
        loop = asyncio.get_running_loop()
        async with await loop.create_server(
            asyncio.Protocol, "127.0.0.1", 0, ssl=context
        ) as server:
            name = server.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*name)
            start_s = loop.time()
            await asyncio.wait_for(reader.read(), 20)
            writer.close()
            return loop.time() - start_s

    waited_s = uvloop.run(silent(), loop_factory=partial(BoundedLoop, 0.5))
    assert 0.4 < waited_s < 10


def test_certificates_that_are_none(certificate, tmp_path):
    check_tls(Exposure(ssl_certfile=certificate[0], ssl_keyfile=certificate[1]))
    (tmp_path / "no.pem").write_text("no certificate")
    with pytest.raises(InvalidParams, match=r"no\.pem cannot be used for TLS"):
        check_tls(Exposure(ssl_certfile=tmp_path / "no.pem"))
    with pytest.raises(InvalidParams, match=r"absent\.pem cannot be used"):
        check_tls(Exposure(ssl_certfile=tmp_path / "absent.pem"))
    with pytest.raises(InvalidParams, match="ssl_keyfile needs ssl_certfile"):
        Exposure(ssl_keyfile=certificate[1])


class Collector(HTTPServer):
    """Takes spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.bodies: list[bytes] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_spans(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    collector = Collector()
    exposure = Exposure(otlp_traces_endpoint=f"http://127.0.0.1:{collector.server_port}/v1/traces")
    server = Server(EngineConfig(max_batch_size=2), ServerConfig("small", exposure=exposure))
    try:
        parent = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
        httpx.get(f"{server.url}/health")
        for stream in (False, True):
            body = {"model": "small", "prompt": "One", "max_tokens": 8, "stream": stream}
            httpx.post(f"{server.url}/v1/completions", json=body, headers=parent, timeout=60)
        until(lambda: b"".join(collector.bodies).count(b"/v1/completions") >= 2)
    finally:
        server.stop()
        collector.shutdown()
        collector.server_close()
    told = b"".join(collector.bodies)
    assert bytes.fromhex("ab" * 16) in told and b"specguide" in told
    assert told.count(b"gen_ai.usage.output_tokens") == 2
    assert b"/health" not in told


@pytest.mark.parametrize("path", ["/health", "/ping", "/v1/models", "/metrics", "/version"])
def test_heads(plain, path):
    headers = {"x-api-key": KEY}
    answer = plain.head(path, headers=headers)
    assert answer.status_code == plain.get(path, headers=headers).status_code == 200
    assert answer.content == b""


def test_the_model_has_several_names(engine):
    config = ServerConfig("small", model_aliases=("gpt-4o", "org/small"))
    client = TestClient(create_app(AsyncEngine(engine), config))
    listed = client.get("/v1/models").json()["data"]
    assert client.get("/v1/models/").json()["data"] == listed
    assert [one["id"] for one in listed] == ["small", "gpt-4o", "org/small"]
    for one in listed:
        assert client.get(f"/v1/models/{one['id']}").json() == one
    missing = client.get("/v1/models/another")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "model_not_found"
    told = client.post("/tokenize", json={"model": "gpt-4o", "prompt": "a"})
    assert told.status_code == 200


@pytest.mark.parametrize("name", ["small", "gpt-4o", "", None])
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/responses", {"input": "a"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "a"}]}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_answers_have_the_first_name(engine, path, asked, name, stream):
    client = TestClient(create_app(AsyncEngine(engine), ServerConfig("small", ("gpt-4o",))))
    limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    with client:
        answer = client.post(path, json={**asked, limit: 16, "model": name, "stream": stream})
    assert answer.status_code == 200, answer.text
    assert set(re.findall(r'"model": ?"([^"]*)"', answer.text)) == {"small"}


def test_tokens_are_spelled_on_request(plain):
    ask = {"prompt": "One two", "return_token_strs": True, "add_special_tokens": False}
    told = plain.post("/tokenize", json=ask, headers={"x-api-key": KEY}).json()
    assert len(told["token_strs"]) == told["count"] and "".join(told["token_strs"]) == "One two"


@pytest.mark.parametrize(
    ("host", "url"), [("::1", "http://[::1]:80"), ("localhost", "http://localhost:80")]
)
def test_the_url_that_is_told(host, url):
    assert ServerConfig("small", host=host).url(80) == url


@pytest.mark.parametrize(
    ("config", "given"),
    [
        (Exposure, {"allow_credentials": True}),
        (Exposure, {"allowed_origins": ("foo",)}),
        (Exposure, {"allowed_origins": ("*", "https://example.org/")}),
        (Exposure, {"allowed_origins": ("https://Example.org",)}),
        (Exposure, {"otlp_traces_endpoint": "foo"}),
        (Exposure, {"otlp_traces_endpoint": "http://"}),
        (partial(ServerConfig, "small"), {"client_header": "bad header"}),
        (partial(ServerConfig, "small"), {"client_header": ""}),
    ],
)
def test_what_could_never_work_is_refused(config, given):
    (name,) = given
    with pytest.raises(InvalidParams, match=name) as refusal:
        config(**given)
    assert refusal.value.param == name


def test_origins_of_browsers_are_taken():
    origins = ("*", "null", "https://a.example.org", "http://[::1]:3000", "app://local")
    assert Exposure(allowed_origins=origins).allowed_origins == origins
