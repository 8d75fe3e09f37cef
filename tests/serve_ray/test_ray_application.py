"""What Ray is told to run, and the manifest of examples/ray/."""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse

from specguide.cli import main
from specguide.cli.options import SERVER_KEYS_VARIABLE
from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.errors import EngineError, InvalidParams
from specguide.serve_ray.arguments import KEYS_VARIABLE, plans_of
from specguide.serve_ray.config import ReplicaConfig
from specguide.serve_ray.exchange import AnswerHead
from specguide.serve_ray.proxy import ProxyAnswers
from specguide.serve_ray.replica_metrics import with_replica
from specguide.server.app import create_app
from specguide.server.config import Exposure, ServerConfig
from specguide.server.errors import ApiError

EXAMPLES = Path(__file__).parents[2] / "examples/ray"


def test_arguments():
    plan, replicas = plans_of({"replicas": 3, "spec": {"num_draft_tokens": 2}})
    assert replicas == ReplicaConfig(replicas=3)
    assert plan.engine.max_batch_size == 64 and plan.engine.spec.num_draft_tokens == 2
    assert plan.engine.guide.isolate_compiles and plan.server.model_name == "specguide-small"
    assert plans_of({"replicas": "3", "spec": '{"num_draft_tokens": 2}'}) == (plan, replicas)
    plan, _ = plans_of({"engine": {"model": "/models/some"}, "guide": None})
    assert plan.engine.spec is None and plan.engine.guide is None
    assert plan.server.model_name == "some"
    plan, _ = plans_of({"server": {"api_keys": ["a"]}, "exposure": {"allowed_origins": ["*"]}})
    assert plan.server.api_keys == ("a",) and plan.server.exposure.allowed_origins == ("*",)


def test_guides_are_compiled_apart_whatever_else_is_said_of_them():
    guide = plans_of({"guide": {"max_depth": 7}})[0].engine.guide
    assert guide.isolate_compiles and guide.max_depth == 7
    assert not plans_of({"guide": {"isolate_compiles": False}})[0].engine.guide.isolate_compiles


def test_keys_of_the_environment(monkeypatch):
    assert KEYS_VARIABLE == SERVER_KEYS_VARIABLE
    monkeypatch.setenv(KEYS_VARIABLE, "one two")
    assert plans_of({})[0].server.api_keys == ("one", "two")
    assert plans_of({"server": {"api_keys": ["three"]}})[0].server.api_keys == ("three",)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"replica": 2}, "replica is unknown; known: replicas"),
        ({"engine": {"max_batchsize": 2}}, "engine.max_batchsize is unknown"),
        ({"model": "/models/some"}, "model is unknown; known: replicas"),
        ({"replicas": "two"}, "replicas must be an integer, found 'two'"),
        ({"engine": "x"}, "engine must be a mapping, found 'x'"),
        ({"engine": [1]}, "engine must be a mapping"),
        ({"engine": {"spec": {"num_draft_tokens": 2}}}, "engine.spec is a section of its own"),
        ({"server": {"exposure": None}}, "exposure is a section of its own: give exposure beside"),
        ({"transfer": {"role": "decoder"}}, "role 'decoder' is unknown"),
        ({"replicas": 0}, "replicas must be ≥ 1"),
        ({"replicas": 3, "max_replicas": 2}, "max_replicas must be at least replicas = 3"),
        ({"replica_gpus": -1}, "replica_gpus must be ≥ 0"),
        ({"replica_requests": 0}, "replica_requests must be ≥ 1"),
        ({"replicas": 1.5}, "replicas must be an integer, found 1.5"),
        ({"server": {"api_keys": "secret"}}, "api_keys must be texts in a list, found 'secret'"),
        ({"server": {"max_waiting": "8"}}, "max_waiting must be an integer, found '8'"),
        ({"server": {"port": 80}}, "server.port would do nothing.*under its http_options"),
        ({"exposure": {"ssl_certfile": "x"}}, "exposure.ssl_certfile would do nothing"),
        ({"exposure": {"protect_metrics": "no"}}, "protect_metrics must be True or False"),
    ],
)
def test_wrong_arguments_are_named(args, told):
    with pytest.raises(InvalidParams, match=told):
        plans_of(args)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own schema
def test_the_manifest():
    pytest.importorskip("ray", reason="needs Ray Serve: pip install ray[serve]")
    from ray.serve.schema import ServeDeploySchema

    from specguide.serve_ray.application import num_gpus, resources

    service = yaml.safe_load((EXAMPLES / "rayservice.yaml").read_text())
    assert service["kind"] == "RayService"
    config = ServeDeploySchema(**yaml.safe_load(service["spec"]["serveConfigV2"]))
    (application,) = config.applications
    assert application.import_path == "specguide.serve_ray:app"
    plan, replicas = plans_of(application.args)
    assert num_gpus(plan.engine, replicas) == plan.engine.tensor_parallel_size
    cluster = service["spec"]["rayClusterConfig"]
    assert (EXAMPLES / "Dockerfile").read_text().count(f"ray:{cluster['rayVersion']}-") == 2
    (bundle,) = resources(plan.engine, replicas)["placement_group_bundles"]
    (workers,) = cluster["workerGroupSpecs"]
    (worker,) = workers["template"]["spec"]["containers"]
    assert workers["maxReplicas"] >= replicas.max_replicas
    assert float(worker["resources"]["limits"]["nvidia.com/gpu"]) >= bundle["GPU"]
    assert float(worker["resources"]["requests"]["cpu"]) >= bundle["CPU"]
    assert any(each["name"] == KEYS_VARIABLE for each in worker["env"])


def test_ranks_are_placed_together(monkeypatch):
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import num_gpus, resources

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert num_gpus(EngineConfig(), ReplicaConfig()) == 0
    options = resources(EngineConfig(tensor_parallel_size=4, device="cuda"), ReplicaConfig())
    assert options["placement_group_bundles"] == [{"CPU": 1.0, "GPU": 4.0}]
    assert options["placement_group_strategy"] == "STRICT_PACK"
    far = EngineConfig(tensor_parallel_size=4, rank_address="10.0.0.1:29500")
    with pytest.raises(InvalidParams, match="on one machine"):
        resources(far, ReplicaConfig())
    on_cpu = resources(EngineConfig(device="cpu"), ReplicaConfig(replica_cpus=0))
    assert "placement_group_bundles" not in on_cpu


def test_clients_of_a_replica_that_is_stopped_are_told_before_their_ingress_ends():
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import application

    ingress = application(*plans_of({"server": {"drain_s": 7.0}}))._bound_deployment
    replicas = ingress.init_args[0]._bound_deployment
    given_s, told_s = (
        each._deployment_config.graceful_shutdown_timeout_s for each in (replicas, ingress)
    )
    assert 7 < given_s < told_s


def test_replicas_have_prompts_computed_by_another_engine_and_none_compute_for_others():
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import application

    plan, two = plans_of({"transfer": {"role": "decode"}, "replicas": 2})
    assert plan.engine.transfer.role == "decode"
    application(plan, two)
    with pytest.raises(InvalidParams, match="would all listen at one kv_transfer_address"):
        application(*plans_of({"transfer": {"role": "prefill"}, "max_replicas": 2}))


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


def test_the_proxy_is_told_of_its_middleware_by_a_path_that_there_is():
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    module, _, name = run._SETTINGS["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"].partition(":")
    assert getattr(importlib.import_module(module), name)()[0].cls is ProxyAnswers


@pytest.mark.parametrize(
    ("server", "replica_requests", "taken"),
    [({}, None, 8), ({"max_wait_s": 2.0}, None, 34), ({"max_wait_s": 2.0}, 5, 5)],
)
def test_requests_whose_wait_is_bounded_wait_where_it_is_estimated(server, replica_requests, taken):
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import application

    args = {"engine": {"max_batch_size": 4}, "server": {"max_waiting": 30, **server}}
    ingress = application(*plans_of({**args, "replica_requests": replica_requests}))
    replicas = ingress._bound_deployment.init_args[0]._bound_deployment
    assert replicas._deployment_config.max_ongoing_requests == taken


def test_what_replicas_could_not_be_started_for_is_told(monkeypatch):
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.run import RayServeException, cause_of, serve

    error = RuntimeError("Failed to update the deployments ['EngineReplica'].")
    failed = SimpleNamespace(message="It has failed. Error:\nTraceback …\nno config.json there")
    for deployments, told in (
        ({"a": failed, "b": SimpleNamespace(message="")}, "no config.json there"),
        ({}, str(error)),
    ):
        one = SimpleNamespace(deployments=deployments)
        status = SimpleNamespace(applications={"specguide": one})
        monkeypatch.setattr(serve, "status", lambda status=status: status)
        assert cause_of(error) == told
    monkeypatch.setattr(serve, "status", lambda: SimpleNamespace(applications={}))
    assert cause_of(RayServeException("Traceback …\nprefix / is used\n")) == "prefix / is used"


def test_an_address_in_use_is_told_before_ray_is_started():
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = ServerConfig("m", port=other.getsockname()[1])
        with pytest.raises(InvalidParams, match="Address already in use; give another port"):
            run._http_options(server, is_local=True)
        assert run._http_options(server, is_local=False).port == server.port  # of other machines
    assert run._http_options(ServerConfig("m", port=0), is_local=True).port > 0


def test_a_serve_that_listens_otherwise_is_told_by_name(tmp_path):
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    there = run.HTTPOptions(host="127.0.0.1", port=8000)
    for name, wanted in {"port": 8001, "host": "127.0.0.2", "ssl_certfile": str(tmp_path)}.items():
        options = SimpleNamespace(**{**vars(there), name: wanted})
        with pytest.raises(InvalidParams, match=f"has {name} .*, and not {wanted}") as refused:
            run._check_address(ServerConfig("m"), options, there)
        assert refused.value.param == name
    free = SimpleNamespace(**{**vars(there), "port": 1234})
    run._check_address(ServerConfig("m", port=0), free, there)


def test_an_application_that_is_there_already_is_not_replaced():
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    of = lambda status: {"specguide": SimpleNamespace(status=status)}  # noqa: E731
    with pytest.raises(InvalidParams, match="has an application 'specguide' already"):
        run._check_alone(of(run.ApplicationStatus.RUNNING))
    run._check_alone(of(run.ApplicationStatus.DELETING))
    run._check_alone({"other": 1})


@pytest.mark.parametrize("error", [EngineError("no replica"), SystemExit(143)])
def test_a_command_that_ends_before_its_time_leaves_nothing_in_the_cluster(monkeypatch, error):
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    deleted = []
    monkeypatch.setattr(run.serve, "delete", lambda *args, **kwargs: deleted.append((args, kwargs)))
    with pytest.raises(type(error)), run._removed(is_joined=True):
        raise error
    assert deleted == [(("specguide",), {"_blocking": False})]


def test_a_cluster_that_is_not_there_is_told_at_once(monkeypatch):
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")

    def init(*_, **__):
        raise ConnectionError("Failed to connect")

    monkeypatch.setattr(run.ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(InvalidParams, match=r"cannot be joined: .*RAY_AUTH_MODE=token"):
            run._join(cluster)
    with pytest.raises(InvalidParams, match=rf"no cluster is at {cluster}, .* refused; start it"):
        run._join(cluster)


@pytest.mark.parametrize("others", [{}, {"other": 1}])
@pytest.mark.parametrize("proxies", [{}, {"node": 1}])
def test_other_applications_of_a_cluster_outlive_the_command(monkeypatch, others, proxies):
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    called = []
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    status = SimpleNamespace(proxies=proxies, applications=others)
    client = SimpleNamespace(http_config=run.HTTPOptions(host="127.0.0.1", port=8000))
    replaced = {"status": lambda: status, "run": lambda *_, **__: None, "start": lambda **_: None}
    for name, call in replaced.items():
        monkeypatch.setattr(run.serve, name, call)
    for name in ("delete", "shutdown"):
        monkeypatch.setattr(run.serve, name, lambda *_, name=name: called.append(name))
    monkeypatch.setattr(run.ray, "init", lambda *_, **__: None)
    monkeypatch.setattr(run.ray, "shutdown", lambda: None)
    monkeypatch.setattr(run, "application", lambda *_: None)
    monkeypatch.setattr(run, "_get_global_client", lambda: client)
    monkeypatch.setattr(run, "_on_signals", lambda _: None)
    monkeypatch.setattr(run, "_drain", lambda *_: None)
    monkeypatch.setattr(run.threading, "Event", lambda: SimpleNamespace(wait=lambda: None))
    plan, replicas = plans_of({"replicas": 2})
    assert run.run_replicas(plan, replicas, called.append) == 0
    is_alone = not others and not proxies
    assert called == ["serving on http://127.0.0.1:8000", "delete"] + ["shutdown"] * is_alone


def test_a_second_signal_ends_the_command_at_once(monkeypatch):
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    handlers = {}
    monkeypatch.setattr(run.signal, "signal", handlers.__setitem__)
    is_ended = threading.Event()
    run._on_signals(run._ending(is_ended))
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert is_ended.is_set()
    with pytest.raises(SystemExit) as ended:
        handlers[signal.SIGINT](signal.SIGINT, None)
    assert ended.value.code == 128 + signal.SIGINT


def test_a_signal_before_replicas_serve_ends_the_command_at_once(monkeypatch):
    run = pytest.importorskip("specguide.serve_ray.run", reason="needs Ray Serve")
    handlers = {}
    monkeypatch.setattr(run.signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(run, "_http_options", lambda *_, **__: None)
    monkeypatch.setattr(run, "_check_room", lambda *_: None)

    def init(address, **_):
        assert address == "local"  # else it joins a cluster that `ray start` has left a note of
        handlers.clear()  # it takes them

    monkeypatch.setattr(run.ray, "init", init)
    monkeypatch.setattr(run.ray, "shutdown", lambda: None)
    start = lambda *_: handlers[signal.SIGTERM](signal.SIGTERM, None)  # noqa: E731
    monkeypatch.setattr(run, "_start_serve", start)
    plan, replicas = plans_of({"replicas": 2})
    with pytest.raises(SystemExit) as ended:
        run.run_replicas(plan, replicas, print)
    assert ended.value.code == 128 + signal.SIGTERM


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


class EndlessAnswer:
    """Of a replica that has begun to answer."""

    async def __aiter__(self):
        yield AnswerHead(200, [(b"content-type", b"text/event-stream")])
        yield b'data: {"choices": []}\n\n'
        await asyncio.Event().wait()

    def cancel(self):
        pass


def test_an_ingress_that_stops_tells_those_under_way_and_those_that_come():
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

    async def run():
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

    asyncio.run(run())


def test_without_ray_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "specguide.serve_ray.run", raising=False)
    monkeypatch.setattr(sys, "argv", ["specguide", "serve", "--replicas", "2"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert 'needs ray: pip install "specguide[ray]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/v1/chat/completions", b"data: [DONE]\n\n"),
        ("/llm/v1/completions", b"data: [DONE]\n\n"),
        ("/v1/messages", b"}\n\n"),
    ],
)
def test_a_stream_whose_replica_is_gone_ends_as_streams_of_its_api_do(path, end):
    last = end_of_broken(path, [b"data: {}\n\n"])
    assert b"gone" in last and last.endswith(end)
    assert last.startswith(b"event: error\n") == (path == "/v1/messages")


def test_a_response_whose_replica_is_gone_has_failed(client):
    asked = {"input": "Say a number", "stream": True, "max_output_tokens": 16}
    with client.stream("POST", "/v1/responses", json=asked) as answer:
        events = [piece + b"\n\n" for piece in answer.read().split(b"\n\n") if piece]
    whole = [json.loads(one.partition(b"data: ")[2]) for one in events]
    for num_events in (0, 1, 4, len(events) - 1):
        told = end_of_broken("/v1/responses", events[:num_events]).split(b"\n\n")
        assert [one.partition(b"\n")[0] for one in told] == [
            *(b"event: error", b"event: response.failed", b"")
        ]
        error, failed = (json.loads(one.partition(b"data: ")[2]) for one in told[:2])
        assert error["code"] == "replica_lost" and error["sequence_number"] == num_events
        response = failed["response"]
        assert failed["sequence_number"] == num_events + 1 and response["status"] == "failed"
        assert response["error"]["code"] == "server_error"
        assert len(response["output"]) == (num_events == len(events) - 1)
        if num_events:
            assert response["id"] == whole[0]["response"]["id"]


@pytest.fixture(scope="module")
def client():
    engine = AsyncEngine(Engine(EngineConfig()))
    with TestClient(create_app(engine, ServerConfig("small"))) as one:
        yield one


def end_of_broken(path, pieces):
    """The pieces that are sent behind the first ones of a broken stream."""
    ingress = pytest.importorskip("specguide.serve_ray.ingress", reason="needs Ray Serve")
    sent = []

    async def send(message):
        sent.append(message)

    async def begun():
        yield AnswerHead(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
        for piece in pieces:
            yield piece
        raise ApiError(503, "gone", kind="server_error", code="replica_lost")

    async def main():
        passed_on = ingress._PassedOn(send, path)
        with pytest.raises(ApiError) as caught:
            await passed_on.take(begun())
        await passed_on.fail(caught.value, {}, None)

    asyncio.run(main())
    assert not sent[-1]["more_body"]
    return sent[-1]["body"]
