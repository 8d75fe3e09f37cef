"""Imported by a service's fork server alone: what its forks, the fronts, need. It ends with the
supervisor, and they with it.

PID: of the fork server
"""

from __future__ import annotations

import os

import specguide.server.front  # noqa: F401
from specguide.engine.control import live_with, settle

PID = os.getpid()
live_with(os.getppid(), "specguide-forks")
settle()
