"""Owns Stage: which of a model's layers this process holds, and its links to the stages before and
after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from specguide.errors import InvalidParams
from specguide.parallel.collectives import Pending
from specguide.parallel.ranks import ONE_RANK, Ranks


@dataclass(frozen=True, eq=False)
class Stage:
    """One of the pipeline stages that a pass goes through, each with its own layers (Huang et al.
    2019, "GPipe").

    index:             this process's stage; stage 0 has the first layers
    num:               number of stages
    world:             all ranks of all stages; those of one stage have consecutive numbers
    num_micro_batches: parts into which a pass is cut, so that stages work at the same time
    """

    index: int = 0
    num: int = 1
    world: Ranks = field(default_factory=lambda: ONE_RANK)
    num_micro_batches: int = 1

    @property
    def is_first(self) -> bool:
        return self.index == 0

    @property
    def is_last(self) -> bool:
        return self.index == self.num - 1

    def layers(self, total: int) -> range:
        """The layers of this stage, out of a model's `total`. Where these cannot be divided evenly,
        the earlier stages have one more. Raises InvalidParams where there are fewer layers than
        stages."""
        if total < self.num:
            raise InvalidParams(
                f"a model of {total} layers cannot be cut into {self.num} stages: set "
                f"pipeline_parallel_size to {total} or less",
                param="pipeline_parallel_size",
            )
        each, more = divmod(total, self.num)
        first = self.index * each + min(self.index, more)
        return range(first, first + each + (self.index < more))

    def receive(self, tensor: Tensor) -> Tensor:
        """Fill a tensor with the one that the stage before sends. Raises CollectiveFailed."""
        self.world.collectives.receive(tensor, self.world.rank - self._num_ranks)
        return tensor

    def send(self, tensor: Tensor) -> Pending:
        """Send a tensor to the next stage, which receives in the same order. `tensor` must not
        change until `wait` of the returned object has returned."""
        return self.world.collectives.send(tensor, self.world.rank + self._num_ranks)

    def from_last(self, tensor: Tensor) -> Tensor:
        """Fill a tensor on all ranks with its value on the last stage. Raises CollectiveFailed."""
        self.world.collectives.broadcast(tensor, (self.num - 1) * self._num_ranks)
        return tensor

    @property
    def _num_ranks(self) -> int:
        """Number of ranks of each stage."""
        return self.world.size // self.num


ONE_STAGE = Stage()
"""One stage has all layers."""


def wait_all(sent: Sequence[Pending]) -> None:
    """Wait until all messages have left. Raises CollectiveFailed."""
    for pending in sent:
        pending.wait()
