"""Owns requests from admission to release: `schedule` plans an iteration, `commit` takes its
results."""

from specguide.scheduler.answers import Advance, Commit, Schedule
from specguide.scheduler.guided_text import GuidedText
from specguide.scheduler.limits import SchedulerLimits
from specguide.scheduler.output_text import OutputText
from specguide.scheduler.scheduler import Scheduler
from specguide.scheduler.step_budget import StepBudget

__all__ = [
    "Advance",
    "Commit",
    "GuidedText",
    "OutputText",
    "Schedule",
    "Scheduler",
    "SchedulerLimits",
    "StepBudget",
]
