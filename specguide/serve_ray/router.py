"""Owns the router of Ray Serve: `Routing` behind the interface that Ray calls."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from specguide.serve_ray.exchange import ForwardedRequest
from specguide.serve_ray.routing import Routing, RoutingCosts, RoutingKey


class CacheAwareRouter(RequestRouter):
    """Sends a request to a replica that has its prefix in its cache and its grammar compiled,
    unless another one would answer sooner. Only one event loop may use it."""

    def initialize_state(self, max_entries: int = 1 << 20, **costs: float) -> None:
        """max_entries: see Routing; costs: fields of RoutingCosts"""
        self._routing = Routing(RoutingCosts(**costs), max_entries=max_entries)
        self._ids: dict[str, ReplicaID] = {}
        self._num_ongoing: Counter[str] = Counter()

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Take the current set of replicas."""
        super().update_replicas(replicas)
        self._ids = {each.replica_id.unique_id: each.replica_id for each in replicas}
        self._routing.update(self._ids)
        for name in [name for name in self._num_ongoing if name not in self._ids]:
            del self._num_ongoing[name]

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Forget a replica that is gone."""
        super().on_replica_actor_died(replica_id)
        self._routing.remove(replica_id.unique_id)
        self._ids.pop(replica_id.unique_id, None)
        self._num_ongoing.pop(replica_id.unique_id, None)

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """A few replicas, the best first. Where all of these are full, Ray picks others at
        random."""
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        names = self._routing.choose(_key_of(pending_request), self._ongoing)
        replicas = (self.curr_replicas.get(self._ids[name]) for name in names)
        return [[replica] for replica in replicas if replica is not None]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """Note that a replica has taken a request."""
        self._num_ongoing[replica_id.unique_id] += 1
        self._routing.note(replica_id.unique_id, _key_of(pending_request))

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Note that a request has ended at a replica, in whatever way."""
        if self._num_ongoing[replica_id.unique_id] > 0:
            self._num_ongoing[replica_id.unique_id] -= 1

    def _ongoing(self, name: str) -> int:
        """Number of requests under way at a replica, by this router's count or by the replica's
        last report, whichever is greater."""
        heard = self.replica_queue_len_cache.get(self._ids[name])
        return max(self._num_ongoing[name], heard or 0)


def _key_of(pending_request: PendingRequest | None) -> RoutingKey:
    args = [] if pending_request is None else pending_request.args
    first = args[0] if args else None
    return first.key if isinstance(first, ForwardedRequest) else RoutingKey()
