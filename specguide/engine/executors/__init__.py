"""Who runs the batches of an engine.

Begin with `base`: the Executor, as the loop knows it. `local` runs batches in this process, with
what `memory` allocates. `ranks` runs them on several ranks, each a process (`rank_process`) that
rank 0 talks to through a Follower (`followers`); those of other hosts come by `join`, over
`host_links`, and stand here as `joined`. `watch` ends calls that wait for a rank that is gone.
"""

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
