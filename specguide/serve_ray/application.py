"""Owns the application for Ray Serve: an ingress in front of replicas, each with its resources."""

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

_DEPLOYMENT: Any = serve.deployment  # its annotations lose the result's type
_ROUTER: Any = "specguide.serve_ray.router.CacheAwareRouter"
_HEALTH_PERIOD_S = 2.0
_END_S = 5.0
"""Time in seconds for a replica to end, after the time for requests under way."""
_TELL_S = 5.0
"""Time in seconds for an ingress to tell its clients of requests whose replica is gone."""


def application(plan: ServicePlan, config: ReplicaConfig) -> serve.Application:
    """The application of Ray Serve: `serve.run` runs it, and replaces the replicas one by one where
    it has changed. Raises InvalidParams for an engine that cannot have so many replicas."""
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
    """Most requests that a replica has at once. Where waiting time is limited, these include all
    waiting requests, since the replica estimates the time from the requests that it has."""
    slots = plan.engine.max_batch_size
    is_bounded = plan.server.max_wait_s is not None
    return slots + (max(slots, plan.server.max_waiting) if is_bounded else slots)


def _routing(config: ReplicaConfig) -> dict[str, Any]:
    alone = {"hope": 0.0} if config.ingresses == 1 else {}
    return {"max_entries": config.routing_entries, **alone}


def resources(engine: EngineConfig, config: ReplicaConfig) -> dict[str, Any]:
    """The options of a deployment that state a replica's needs. Its ranks are its own child
    processes, so they share one bundle of resources, which Ray places on one machine. Raises
    InvalidParams where ranks would come from other machines."""
    if engine.rank_address is not None:
        raise InvalidParams(
            "rank_address cannot be used with replicas: the ranks of a replica run on one machine, "
            "and all replicas would have the same address; leave rank_address out, or serve "
            "without replicas",
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
    """Number of GPUs of a replica."""
    if config.replica_gpus is not None:
        return config.replica_gpus
    has_none = engine.device is None and not _cluster_has_gpus()
    return 0 if has_none or engine.device == "cpu" else engine.num_ranks


def _cluster_has_gpus() -> bool:
    """Whether a machine of the cluster has a GPU; before there is a cluster, whether this machine
    has one."""
    if not ray.is_initialized():
        return torch.cuda.is_available()
    return bool(ray.cluster_resources().get("GPU", 0) > 0)


def check_number(engine: EngineConfig, config: ReplicaConfig) -> None:
    """Raises InvalidParams where several replicas would have to share one address."""
    if engine.transfer.role == "prefill" and (config.max_replicas or config.replicas) > 1:
        raise InvalidParams(
            "several replicas cannot have the role prefill, since all would listen at the same "
            "kv_transfer_address: start one server for each, without replicas and with an address "
            "of its own",
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
