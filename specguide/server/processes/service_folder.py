"""Owns the folder of a service: its sockets and counts, for as long as the service lives."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from specguide.errors import InvalidParams

_PREFIX, _LOCK = "specguide-", "lock"
_MOST_BYTES = 90
"""Longest path of the folder: the kernel takes 107 bytes, a socket's name behind it included."""


class ServiceFolder:
    """A new folder, which goes with the service. One of a process that was killed is removed by the
    next that starts: its lock, which the kernel lets go of, says that nobody has it.

    Raises InvalidParams where its path is too long for a socket's.
    """

    def __init__(self) -> None:
        _remove_abandoned()
        self._stack = ExitStack()
        self.name = self._stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX))
        num_bytes = len(os.fsencode(self.name))
        if num_bytes > _MOST_BYTES:
            self.cleanup()
            raise InvalidParams(
                f"the path of the folder for sockets, {self.name}, may have at most {_MOST_BYTES} "
                f"bytes, found {num_bytes}; set TMPDIR to a folder with a shorter path"
            )
        new = Path(self.name, f"new {_LOCK}")
        lock = self._stack.enter_context(new.open("wb"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(new.with_name(_LOCK))  # by which others see it, once it is held

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        """Nothing is left of it."""
        self._stack.close()


def _remove_abandoned() -> None:
    """The folders of this user's services that are gone."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        folder = lock.parent
        with suppress(OSError):  # another one has it, or has removed it just now
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
