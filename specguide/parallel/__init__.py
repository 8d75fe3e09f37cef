"""Owns what the ranks of an engine share: who each one is, and the collectives between them."""

from specguide.parallel.collectives import CollectiveFailed, Collectives, NoCollectives
from specguide.parallel.connect import Meeting, connect
from specguide.parallel.ranks import ONE_RANK, Ranks

__all__ = [
    "ONE_RANK",
    "CollectiveFailed",
    "Collectives",
    "Meeting",
    "NoCollectives",
    "Ranks",
    "connect",
]
