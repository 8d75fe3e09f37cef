"""Owns `specguide serve --replicas`: it runs an application of Ray Serve until a signal."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import ray
from ray import serve
from ray.serve.config import HTTPOptions
from ray.serve.context import _get_global_client
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ApplicationStatus

from specguide.errors import EngineError, InvalidParams
from specguide.serve_ray.application import application, check_number, num_gpus
from specguide.serve_ray.config import ReplicaConfig
from specguide.server.config import ServerConfig
from specguide.server.http.tls import check_tls
from specguide.server.processes.listening import Reservation
from specguide.server.processes.plans import ServicePlan

_NAME = "specguide"
_TLS = ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs")
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "specguide.serve_ray.proxy:middlewares",
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "1",  # with 10, a dead proxy was missed for 30 s
}
"""Ray's settings by environment variables, where the environment does not set them."""
_REACH_S = 5.0
"""Time in seconds for a cluster to accept a connection."""
_TELL_S = 5.0
"""Time in seconds for an ingress, after the time for requests under way."""
_LAST_WORDS_S = 0.5
"""Time in seconds for last messages to reach clients through Ray's proxy."""
_LOGGER = logging.getLogger(__name__)


def run_replicas(plan: ServicePlan, config: ReplicaConfig, tell: Callable[[str], None]) -> int:
    """Run the application until a signal; a second signal, or one before it runs, ends it at once.
    Joins the cluster that RAY_ADDRESS names; without that, this machine is the cluster. Returns the
    command's exit code.

    tell: called with messages for the operator

    Raises InvalidParams for addresses, certificate and role, where this machine has too few
    resources, and where the cluster's Ray Serve listens elsewhere or has this application already;
    EngineError where the replicas cannot be started.
    """
    check_tls(plan.server.exposure)
    check_number(plan.engine, config)
    cluster = os.environ.get("RAY_ADDRESS") or "local"
    is_local = cluster == "local"
    options = _http_options(plan.server, is_local=is_local)
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    _on_signals(_end_at_once)
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    _join(cluster)
    try:
        _on_signals(_end_at_once)  # Ray has replaced the handlers
        if is_local:
            _check_room(plan, config)
        is_joined = _start_serve(plan.server, options)
        _check_alone(serve.status().applications)
        with nullcontext() if is_local else _removed(is_joined=is_joined):
            _serve(plan, config, tell)
    finally:
        ray.shutdown()
    return 0


def _join(cluster: str) -> None:
    """Join a cluster, or start one on this machine alone. Raises InvalidParams where it cannot be
    joined.

    cluster: as RAY_ADDRESS names it
    """
    _check_reached(cluster)
    local = {"include_dashboard": False} if cluster == "local" else {}
    try:
        ray.init(cluster, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, ValueError) as error:
        raise InvalidParams(
            f"the Ray cluster of RAY_ADDRESS cannot be joined: {error}; if it needs a token, set "
            "RAY_AUTH_MODE=token too",
            param="RAY_ADDRESS",
        ) from error


def _check_reached(cluster: str) -> None:
    """Raise InvalidParams where nobody listens at a cluster's address: Ray would try for a quarter
    of an hour."""
    host, _, port = cluster.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # local, auto
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except OSError as error:
        raise InvalidParams(
            f"no Ray cluster answers at {cluster}, the address in RAY_ADDRESS: {error}; start one "
            "there (`ray start --head`), or set another address",
            param="RAY_ADDRESS",
        ) from error


def _serve(plan: ServicePlan, config: ReplicaConfig, tell: Callable[[str], None]) -> None:
    """Run the application until a signal. Raises EngineError where it cannot be started."""
    is_ended = threading.Event()
    try:
        ingress = serve.run(application(plan, config), name=_NAME)
    except (RuntimeError, RayServeException) as error:
        raise EngineError(f"the replicas could not be started: {cause_of(error)}") from error
    _on_signals(_ending(is_ended))
    tell(f"serving on {plan.server.url(_get_global_client().http_config.port)}")
    is_ended.wait()
    _drain(ingress, plan.server.drain_s)


def _check_alone(applications: Mapping[str, Any]) -> None:
    """Raise InvalidParams where the cluster already has the application, which this one would
    replace, and remove when it ends. One that is being deleted does not count."""
    there = applications.get(_NAME)
    if there is not None and there.status != ApplicationStatus.DELETING:
        raise InvalidParams(
            f"this cluster has an application {_NAME!r} already: stop the command that serves it; "
            'if that was killed, remove what it has left: python -c "from ray import serve; '
            f"serve.delete('{_NAME}')\"",
            param="replicas",
        )


@contextmanager
def _removed(*, is_joined: bool) -> Iterator[None]:
    """A context behind which nothing is left in the cluster, however it ends."""
    try:
        yield
    except BaseException:
        serve.delete(_NAME, _blocking=False)
        raise
    serve.delete(_NAME)
    if not (is_joined or serve.status().applications):
        serve.shutdown()


def _start_serve(server: ServerConfig, options: HTTPOptions) -> bool:
    """Start Ray Serve, or join the one that the cluster already runs. Returns whether it has
    joined. Raises InvalidParams where that one listens at another address, or with other
    certificates."""
    is_joined = bool(serve.status().proxies)
    serve.start(http_options=options, logging_config={"log_level": "WARNING"})
    if is_joined:
        _check_address(server, options, _get_global_client().http_config)
    return is_joined


def _check_address(server: ServerConfig, options: HTTPOptions, there: HTTPOptions) -> None:
    for name in ("host", "port", *_TLS):
        wanted, has = getattr(options, name), getattr(there, name)
        if wanted != has and (name, server.port) != ("port", 0):
            raise InvalidParams(
                f"this cluster runs Ray Serve already, with {name} {has} and not {wanted}: give "
                f"specguide the same {name}, or stop Ray Serve (`serve shutdown`)",
                param=name,
            )


def _drain(ingress: DeploymentHandle, drain_s: float) -> None:
    """Give requests under way their time, while new ones get a 503. Ray is told only later, since
    its proxies then forget the routes at once."""
    try:
        ingress.broadcast("stop", drain_s).results(timeout_s=drain_s + _TELL_S)
    except Exception as error:  # it is stopped in any case
        _LOGGER.warning("the ingress could not be told to stop: %s", error)
    time.sleep(_LAST_WORDS_S)


def _on_signals(handle: Callable[[int, object], object]) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, handle)


def _end_at_once(number: int, _: object) -> None:
    sys.exit(128 + number)


def _ending(is_ended: threading.Event) -> Callable[[int, object], None]:
    """A handler that sets the event at the first signal, and ends this process at a second one."""

    def end(number: int, _: object) -> None:
        _on_signals(_end_at_once)
        is_ended.set()

    return end


def cause_of(error: Exception) -> str:
    """The reason why Ray could not start the deployments: the last line of what each raised, or
    else of the error itself."""
    failed = serve.status().applications.get(_NAME)
    messages = [each.message for each in failed.deployments.values()] if failed else []
    lines = [line for each in messages for line in each.splitlines()[-1:]]
    return "; ".join(lines) or (str(error).strip() or type(error).__name__).splitlines()[-1]


def _check_room(plan: ServicePlan, config: ReplicaConfig) -> None:
    """Raise InvalidParams where this machine has too few resources: Ray would wait for a larger
    one."""
    needed = {"CPU": config.replica_cpus, "GPU": float(num_gpus(plan.engine, config))}
    for kind, number in needed.items():
        there = ray.cluster_resources().get(kind, 0.0)
        if config.replicas * number > there:
            raise InvalidParams(
                f"{config.replicas} replicas with {number:g} {kind}s each need more than the "
                f"{there:g} of this machine; lower replicas or replica_{kind.lower()}s",
                param=f"replica_{kind.lower()}s",
            )


def _http_options(server: ServerConfig, *, is_local: bool) -> HTTPOptions:
    """The address and certificates for Ray's proxy. Raises InvalidParams for an address on which
    this machine cannot listen."""
    exposure = server.exposure
    tls: dict[str, Any] = {
        name: str(getattr(exposure, name)) for name in _TLS if getattr(exposure, name) is not None
    }
    port = server.port
    if is_local or not port:
        with closing(Reservation(server.host, port)) as reserved:
            port = reserved.port
    return HTTPOptions(host=server.host, port=port, **tls)
