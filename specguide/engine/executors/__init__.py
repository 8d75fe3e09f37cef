"""Owns who runs the batches of an engine: the seam that the loop drives, and the executor in this
process, and the one with a process for each rank."""

from specguide.config.resolved import ResolvedConfig
from specguide.engine.executors.base import Capabilities, Executor, PendingOutput
from specguide.engine.executors.join import join
from specguide.engine.executors.local import LocalExecutor
from specguide.engine.executors.ranks import RanksExecutor

__all__ = [
    "Capabilities",
    "Executor",
    "LocalExecutor",
    "PendingOutput",
    "RanksExecutor",
    "join",
    "load_executor",
]


def load_executor(config: ResolvedConfig) -> Executor:
    """What runs the batches of a configuration, its models loaded. Raises CheckpointError and
    InvalidParams."""
    if config.num_ranks == 1:
        return LocalExecutor.load(config)
    return RanksExecutor.load(config)
