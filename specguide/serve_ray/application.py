"""Owns what Ray Serve is told to run: an ingress in front of replicas, each with its resources."""

from __future__ import annotations

from typing import Any

import ray
import torch
from ray import serve
from ray.serve.config import RequestRouterConfig

from specguide.config import EngineConfig
from specguide.errors import InvalidParams
from specguide.serve_ray.config import ReplicaConfig
from specguide.serve_ray.ingress import Ingress
from specguide.serve_ray.replica import EngineReplica
from specguide.server.processes.plans import ServicePlan

_DEPLOYMENT: Any = serve.deployment  # whose annotations forget what it returns
_ROUTER: Any = "specguide.serve_ray.router.CacheAwareRouter"
_HEALTH_PERIOD_S = 2.0
_END_S = 5.0
"""Time for a replica to end, beyond what requests under way are given, seconds."""
_TELL_S = 5.0
"""Time for an ingress to tell its clients of requests that have gone with their replica,
seconds."""


def application(plan: ServicePlan, config: ReplicaConfig) -> serve.Application:
    """The application of Ray Serve: `serve.run` runs it, and a changed one replaces the replicas in
    turn. Raises InvalidParams for an engine of which there cannot be so many."""
    check_number(plan.engine, config)
    shutdown_s = plan.server.drain_s + _END_S
    replicas = _DEPLOYMENT(EngineReplica).options(
        max_ongoing_requests=config.replica_requests or _replica_requests(plan),
        max_queued_requests=plan.server.max_waiting,
        graceful_shutdown_timeout_s=shutdown_s,
        health_check_period_s=_HEALTH_PERIOD_S,
        request_router_config=RequestRouterConfig(
            request_router_class=_ROUTER,
            request_router_kwargs=_routing(config),
        ),
        **_number(plan.engine, config),
        **resources(plan.engine, config),
    )
    ingress = _DEPLOYMENT(Ingress).options(
        num_replicas=config.ingresses,
        max_ongoing_requests=plan.server.max_connections,
        graceful_shutdown_timeout_s=shutdown_s + _TELL_S,
        ray_actor_options={"num_cpus": 0},
    )
    return ingress.bind(replicas.bind(plan), plan.server)


def _replica_requests(plan: ServicePlan) -> int:
    """Most requests that a replica has at once. Where a wait is bounded all that wait are there,
    since the replica estimates it from what it has."""
    slots = plan.engine.max_batch_size
    is_bounded = plan.server.max_wait_s is not None
    return slots + (max(slots, plan.server.max_waiting) if is_bounded else slots)


def _routing(config: ReplicaConfig) -> dict[str, Any]:
    alone = {"hope": 0.0} if config.ingresses == 1 else {}
    return {"max_entries": config.routing_entries, **alone}


def resources(engine: EngineConfig, config: ReplicaConfig) -> dict[str, Any]:
    """Options of a deployment that say what a replica needs. Its ranks are processes of its own, so
    all that they need is one bundle, which Ray places on one machine. Raises InvalidParams where
    ranks are to come from other ones."""
    if engine.rank_address is not None:
        raise InvalidParams(
            "the ranks of a replica are on one machine, and all would meet at one rank_address: "
            "leave it out, or serve without replicas",
            param="rank_address",
        )
    needed = {"CPU": config.replica_cpus, "GPU": float(num_gpus(engine, config))}
    needed = {kind: number for kind, number in needed.items() if number}
    options: dict[str, Any] = {
        "ray_actor_options": {
            "num_cpus": needed.get("CPU", 0),
            "num_gpus": needed.get("GPU", 0),
        }
    }
    if needed:
        options |= {"placement_group_bundles": [needed], "placement_group_strategy": "STRICT_PACK"}
    return options


def num_gpus(engine: EngineConfig, config: ReplicaConfig) -> int:
    """GPUs of a replica."""
    if config.replica_gpus is not None:
        return config.replica_gpus
    has_none = engine.device is None and not _cluster_has_gpus()
    return 0 if has_none or engine.device == "cpu" else engine.num_ranks


def _cluster_has_gpus() -> bool:
    """Whether a machine of the cluster has a GPU; without a cluster yet, whether this machine
    has."""
    if not ray.is_initialized():
        return torch.cuda.is_available()
    return bool(ray.cluster_resources().get("GPU", 0) > 0)


def check_number(engine: EngineConfig, config: ReplicaConfig) -> None:
    """Raises InvalidParams where so many replicas have no place of their own to be found at."""
    if engine.transfer.role == "prefill" and (config.max_replicas or config.replicas) > 1:
        raise InvalidParams(
            "replicas with the role prefill would all listen at one kv_transfer_address: serve "
            "each by itself, without replicas, at an address of its own",
            param="role",
        )


def _number(engine: EngineConfig, config: ReplicaConfig) -> dict[str, Any]:
    if config.max_replicas is None:
        return {"num_replicas": config.replicas}
    return {
        "autoscaling_config": {
            "min_replicas": config.replicas,
            "max_replicas": config.max_replicas,
            "target_ongoing_requests": engine.max_batch_size,
        }
    }
