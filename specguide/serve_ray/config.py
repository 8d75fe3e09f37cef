"""Owns the configuration of replicas on Ray Serve."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.errors import InvalidParams
from specguide.inputs.field_values import check_types


@dataclass(frozen=True)
class ReplicaConfig:
    """How many replicas serve a model on Ray, and with which resources.

    replicas:      engines behind one address, each with its own model and cache; with max_replicas,
                   the fewest
    max_replicas:  most replicas; their number is then between `replicas` and this one, and follows
                   the requests that run or wait
    ingresses:     processes that read requests and choose the replicas
    replica_gpus:  GPUs of a replica, all of one machine; left out: as many as it has ranks, or none
                   where the engine's device is the CPU or no machine of the cluster has a GPU
    replica_cpus:  CPU cores reserved for a replica
    replica_requests: most requests that a replica is given at once; further ones wait for the first
                      replica that has room. Left out: twice its slots; where max_wait_s is given,
                      its slots and max_waiting, so that it can tell how long they would wait
    routing_entries: most hashes of prompts and grammars that an ingress remembers; each replica has
                     an equal share of at most 16,384
    """

    replicas: int = 1
    max_replicas: int | None = None
    ingresses: int = 1
    replica_gpus: int | None = None
    replica_cpus: float = 1.0
    replica_requests: int | None = None
    routing_entries: int = 1 << 20

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("replicas", "ingresses", "routing_entries"):
            if getattr(self, name) < 1:
                raise InvalidParams(f"{name} must be ≥ 1, found {getattr(self, name)}", param=name)
        for name in ("replica_gpus", "replica_cpus"):
            if (getattr(self, name) or 0) < 0:
                raise InvalidParams(f"{name} must be ≥ 0, found {getattr(self, name)}", param=name)
        if self.replica_requests is not None and self.replica_requests < 1:
            raise InvalidParams(
                f"replica_requests must be ≥ 1, found {self.replica_requests}",
                param="replica_requests",
            )
        if self.max_replicas is not None and self.max_replicas < self.replicas:
            raise InvalidParams(
                f"max_replicas must be at least replicas = {self.replicas}, found "
                f"{self.max_replicas}",
                param="max_replicas",
            )
