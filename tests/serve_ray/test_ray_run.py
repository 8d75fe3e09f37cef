"""`specguide serve --replicas`: how it starts, in what cluster, and what it leaves there."""

from __future__ import annotations

import importlib
import signal
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from specguide.cli import main
from specguide.errors import EngineError, InvalidParams
from specguide.serve_ray.arguments import plans_of
from specguide.serve_ray.proxy import ProxyAnswers
from specguide.server.config import ServerConfig

EXAMPLES = Path(__file__).parents[2] / "examples/ray"


@pytest.fixture
def run():
    """The module under test, which needs Ray Serve."""
    return pytest.importorskip("specguide.serve_ray.run", reason="needs ray[serve]")


def test_the_proxy_is_told_of_its_middleware_by_a_path_that_there_is(run):
    module, _, name = run._SETTINGS["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"].partition(":")
    assert getattr(importlib.import_module(module), name)()[0].cls is ProxyAnswers


def test_what_replicas_could_not_be_started_for_is_told(run, monkeypatch):
    error = RuntimeError("Failed to update the deployments ['EngineReplica'].")
    failed = SimpleNamespace(message="It has failed. Error:\nTraceback …\nno config.json there")
    for deployments, told in (
        ({"a": failed, "b": SimpleNamespace(message="")}, "no config.json there"),
        ({}, str(error)),
    ):
        one = SimpleNamespace(deployments=deployments)
        status = SimpleNamespace(applications={"specguide": one})
        monkeypatch.setattr(run.serve, "status", lambda status=status: status)
        assert run.cause_of(error) == told
    monkeypatch.setattr(run.serve, "status", lambda: SimpleNamespace(applications={}))
    error = run.RayServeException("Traceback …\nprefix / is used\n")
    assert run.cause_of(error) == "prefix / is used"
    assert run.cause_of(RuntimeError()) == "RuntimeError"


def test_an_address_in_use_is_told_before_ray_is_started(run):
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = ServerConfig("m", port=other.getsockname()[1])
        with pytest.raises(InvalidParams, match="Address already in use; give another port"):
            run._http_options(server, is_local=True)
        assert run._http_options(server, is_local=False).port == server.port  # of other machines
    assert run._http_options(ServerConfig("m", port=0), is_local=True).port > 0


def test_a_serve_that_listens_otherwise_is_told_by_name(run, tmp_path):
    there = run.HTTPOptions(host="127.0.0.1", port=8000)
    for name, wanted in {"port": 8001, "host": "127.0.0.2", "ssl_certfile": str(tmp_path)}.items():
        options = SimpleNamespace(**{**vars(there), name: wanted})
        with pytest.raises(InvalidParams, match=f"with {name} .* and not {wanted}") as refused:
            run._check_address(ServerConfig("m"), options, there)
        assert refused.value.param == name
    free = SimpleNamespace(**{**vars(there), "port": 1234})
    run._check_address(ServerConfig("m", port=0), free, there)


def test_an_application_that_is_there_already_is_not_replaced(run):
    of = lambda status: {"specguide": SimpleNamespace(status=status)}  # noqa: E731
    with pytest.raises(InvalidParams, match="has an application 'specguide' already"):
        run._check_alone(of(run.ApplicationStatus.RUNNING))
    run._check_alone(of(run.ApplicationStatus.DELETING))
    run._check_alone({"other": 1})


@pytest.mark.parametrize("error", [EngineError("no replica"), SystemExit(143)])
def test_a_command_that_ends_before_its_time_leaves_nothing_in_the_cluster(run, monkeypatch, error):
    deleted = []
    monkeypatch.setattr(run.serve, "delete", lambda *args, **kwargs: deleted.append((args, kwargs)))
    with pytest.raises(type(error)), run._removed(is_joined=True):
        raise error
    assert deleted == [(("specguide",), {"_blocking": False})]


def test_a_cluster_that_is_not_there_is_told_at_once(run, monkeypatch):
    def init(*_, **__):
        raise ConnectionError("Failed to connect")

    monkeypatch.setattr(run.ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(InvalidParams, match=r"cannot be joined: .*RAY_AUTH_MODE=token"):
            run._join(cluster)
    with pytest.raises(InvalidParams, match=rf"no Ray cluster .* {cluster}, .* refused; start one"):
        run._join(cluster)


@pytest.mark.parametrize("others", [{}, {"other": 1}])
@pytest.mark.parametrize("proxies", [{}, {"node": 1}])
def test_other_applications_of_a_cluster_outlive_the_command(run, monkeypatch, others, proxies):
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


def test_a_second_signal_ends_the_command_at_once(run, monkeypatch):
    handlers = {}
    monkeypatch.setattr(run.signal, "signal", handlers.__setitem__)
    is_ended = threading.Event()
    run._on_signals(run._ending(is_ended))
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert is_ended.is_set()
    with pytest.raises(SystemExit) as ended:
        handlers[signal.SIGINT](signal.SIGINT, None)
    assert ended.value.code == 128 + signal.SIGINT


def test_a_signal_before_replicas_serve_ends_the_command_at_once(run, monkeypatch):
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


def test_replicas_without_a_place_of_their_own_are_refused_before_ray_begins(run, monkeypatch):
    monkeypatch.delattr(run.ray, "init")
    with pytest.raises(InvalidParams, match="all would listen at the same kv_transfer_address"):
        run.run_replicas(*plans_of({"transfer": {"role": "prefill"}, "replicas": 2}), print)


def test_without_ray_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "specguide.serve_ray.run", raising=False)
    monkeypatch.setattr(sys, "argv", ["specguide", "serve", "--replicas", "2"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert 'needs ray: pip install "specguide[ray]"' in capsys.readouterr().err
