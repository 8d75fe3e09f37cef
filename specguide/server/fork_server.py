"""Owns the process that fronts are forked from: Python's fork server, which has loaded what they
need. A front is there at once then, and shares that memory with the others."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing import forkserver

FORKS = multiprocessing.get_context("forkserver")
LOADED = "specguide.server.forked"


def start(environ: Mapping[str, str]) -> None:
    """Have it started unless it runs, without waiting until it does.

    environ: added to its environment
    """
    before = {name: os.environ.get(name) for name in environ}
    os.environ.update(environ)
    try:
        forkserver.set_forkserver_preload([LOADED])
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
