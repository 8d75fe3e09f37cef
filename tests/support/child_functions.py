"""Owns what children of a service do in tests."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection


def say_parent(plan: object, control: Connection, parent_pid: int) -> None:
    """What it was given, and a variable of its environment."""
    control.send((plan, parent_pid, os.environ["SAID"]))
