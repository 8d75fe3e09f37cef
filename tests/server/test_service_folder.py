"""The folder in which a service has its sockets."""

from __future__ import annotations

import tempfile

import pytest
import zmq

from specguide.errors import InvalidParams
from specguide.server.plans import service_folder


@pytest.fixture
def within(tmp_path, monkeypatch):
    """Makes temporary files go where a folder's path has so many bytes."""

    def set_length(num_bytes: int) -> None:
        num_more = num_bytes - len(f"{tmp_path}//specguide-12345678")
        folder = tmp_path / ("x" * num_more)
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))

    return set_length


def test_the_longest_path_has_room_for_sockets(within):
    within(90)
    with service_folder() as folder, zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        assert len(folder) == 90
        socket.bind(f"ipc://{folder}/core-1000000000")


def test_a_longer_one_is_refused_and_leaves_nothing(within, tmp_path):
    within(91)
    with pytest.raises(InvalidParams, match="TMPDIR"):
        service_folder()
    assert not list(tmp_path.rglob("specguide-*"))
