"""Owns requests from admission to release: `schedule` plans an iteration, `commit` takes its
results."""

from specguide.scheduler.answers import Commit, Schedule
from specguide.scheduler.output_text import OutputText
from specguide.scheduler.scheduler import Scheduler

__all__ = ["Commit", "OutputText", "Schedule", "Scheduler"]
