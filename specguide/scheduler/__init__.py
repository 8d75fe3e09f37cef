"""Owns requests from admission to release: `schedule` plans an iteration, `commit` takes its
results."""

from specguide.scheduler.output_text import OutputText
from specguide.scheduler.scheduler import Scheduler

__all__ = ["OutputText", "Scheduler"]
