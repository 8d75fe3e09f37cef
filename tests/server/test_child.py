"""A process of a service as its supervisor sees it."""

from __future__ import annotations

import os

import pytest

from specguide.server import fork_server
from specguide.server.child import Child

SAYS_ITS_PARENT = "child_functions:say_parent"


def test_it_is_spawned_where_the_fork_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(environ: object) -> None:
        raise EOFError

    monkeypatch.setattr(fork_server, "start", end)
    child = Child("a front", SAYS_ITS_PARENT, 7, {"SAID": "this"}, is_fork=True)
    assert child.hear() == (7, os.getpid(), "this")
    assert child.hear() is None
    child.bury()
    assert child.end == "a front ended with exit code 0"
