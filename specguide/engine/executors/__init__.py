"""Owns who runs the batches of an engine: the seam that the loop drives, and the executor in this
process."""

from specguide.engine.executors.base import Capabilities, Executor, PendingOutput
from specguide.engine.executors.local import LocalExecutor

__all__ = ["Capabilities", "Executor", "LocalExecutor", "PendingOutput"]
