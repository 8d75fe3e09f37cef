"""The folder in which a service has its sockets."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import zmq

from specguide.errors import InvalidParams
from specguide.server.processes.service_folder import ServiceFolder


@pytest.fixture
def short_path():
    """The path of a folder; that of a test is too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="test-") as folder:
        yield Path(folder)


@pytest.fixture
def within(short_path, monkeypatch):
    """Makes temporary files go where a folder's path has so many bytes."""

    def set_length(num_bytes: int) -> None:
        num_more = num_bytes - len(f"{short_path}//specguide-12345678")
        folder = short_path / ("x" * num_more)
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))

    return set_length


def test_the_longest_path_has_room_for_sockets(within):
    within(90)
    with ServiceFolder() as folder, zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        assert len(folder) == 90
        socket.bind(f"ipc://{folder}/core-1000000000")


def test_a_longer_one_is_refused_and_leaves_nothing(within, short_path):
    within(91)
    with pytest.raises(InvalidParams, match="TMPDIR"):
        ServiceFolder()
    assert not list(short_path.rglob("specguide-*"))


HELD = """
import sys, tempfile
from specguide.server.processes.service_folder import ServiceFolder
tempfile.tempdir = sys.argv[1]
folder = ServiceFolder()
print(folder.name, flush=True)
sys.stdin.read()
"""


def test_what_a_process_leaves_that_is_killed_the_next_one_removes(short_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    other = short_path / "specguide-other"  # which is no service's
    other.mkdir()
    held = subprocess.Popen(
        [sys.executable, "-c", HELD, str(short_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert held.stdout is not None
    left = Path(held.stdout.readline().strip())
    with ServiceFolder() as first:
        assert left.is_dir()
        held.kill()
        held.communicate()
        with ServiceFolder() as second:
            assert not left.exists() and Path(first).is_dir() and Path(second).is_dir()
    assert list(short_path.iterdir()) == [other]
