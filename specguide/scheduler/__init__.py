"""Schedules requests from admission to end: which run next, in which slots and pages, and how far
each has come.

Begin with `scheduler`: `schedule` plans an iteration, `commit` takes its results. A request is a
SequenceState (`sequence`), which the scheduler alone changes.

| who waits, and who is next   | `waiting`, `client_queue`, `fairness`        |
| slots and pages              | `placement`, `slots`, `block_tables`         |
| what an iteration computes   | `planning`, `prompts`, `prompt_rate`         |
| how long iterations may take | `pace`, `step_budget`, `service_rates`       |
| output text, and its end     | `output_text`, `guided_text`                 |
"""

from specguide.scheduler.answers import Advance, Commit, Schedule
from specguide.scheduler.guided_text import GuidedText
from specguide.scheduler.limits import SchedulerLimits
from specguide.scheduler.output_text import OutputText, hidden_ends
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
    "hidden_ends",
]
