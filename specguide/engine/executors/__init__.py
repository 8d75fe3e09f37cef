"""The executors, which run the batches of an engine.

Begin with `base`: the Executor, as the loop knows it. `local` runs batches in this process, in the
buffers that `memory` allocates. `ranks` runs them on several ranks, each a process (`rank_process`)
that rank 0 talks to through a Follower (`followers`). Ranks on other hosts are started there by
`join`, talk over `host_links`, and are represented here by `joined`. `watch` ends calls that wait
for a rank that is gone.
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
    """The executor of a configuration, with its models loaded. Raises CheckpointError and
    InvalidParams."""
    if config.num_ranks == 1:
        return LocalExecutor.load(config)
    return RanksExecutor.load(config)
