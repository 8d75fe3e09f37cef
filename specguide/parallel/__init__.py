"""The ranks of an engine: who each one is, how they meet, and the collectives between them."""

from specguide.parallel.collectives import Collectives, NoCollectives, Pending
from specguide.parallel.connect import OWN_HOST, Meeting, connect, connect_stages
from specguide.parallel.failure import CollectiveFailed
from specguide.parallel.ranks import ONE_RANK, Ranks
from specguide.parallel.stages import ONE_STAGE, Stage, wait_all

__all__ = [
    "ONE_RANK",
    "ONE_STAGE",
    "OWN_HOST",
    "CollectiveFailed",
    "Collectives",
    "Meeting",
    "NoCollectives",
    "Pending",
    "Ranks",
    "Stage",
    "connect",
    "connect_stages",
    "wait_all",
]
