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
"""Longest path of the folder, bytes: the kernel takes 107 bytes, including a socket's name in
it."""


class ServiceFolder:
    """A new folder, which is removed at the service's end. If its process is killed, the next
    service that starts removes it: the kernel has then released its lock, which shows that nobody
    uses it.

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
        new.rename(new.with_name(_LOCK))  # which others look for, now that it is held

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        """Remove the folder."""
        self._stack.close()


def _remove_abandoned() -> None:
    """Remove the folders of this user's services that are gone."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        folder = lock.parent
        with suppress(OSError):  # another service has it, or has just removed it
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
