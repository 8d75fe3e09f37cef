"""Owns the processes in which guides are compiled first: a fork server, which starts with the first
guide, and its workers.

See fork_server for their side. None of them outlives this process: the server ends with its control
socket.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from specguide import errors
from specguide.config import GuideConfig
from specguide.errors import CompilerBusy, EngineError, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backend import Outline, Written
from specguide.guided.compiling.fork_server import STARTED
from specguide.guided.compiling.libraries import Failure, too_large, too_slow
from specguide.tokenizer.vocabulary import Vocabulary

_START_S = 60.0
"""Longest time until a compile starts, in seconds. For the first one this includes the server's own
start, which imports the libraries."""
_GRACE_S = 2.0
_END_S = 5.0
_OUT_OF_MEMORY = (signal.SIGABRT, signal.SIGKILL)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_SERVE = (
    "import sys; sys.path[:] = {path!r}; "
    "from specguide.guided.compiling.fork_server import main; main()"
)


@dataclass(frozen=True)
class Passed:
    """A guide that was compiled within its limits: its text for the backend, and the bytes that its
    grammar takes."""

    written: Written
    backend: str
    num_bytes: int


class Trial:
    """A compile in a worker. Only one thread at a time may call its methods.

    ask: sends the guide to a worker, and returns its lease
    """

    def __init__(
        self,
        guide: Guide,
        config: GuideConfig,
        ask: Callable[[], socket.socket],
        give_back: Callable[[socket.socket], None],
    ) -> None:
        self._guide, self._config, self._ask, self._give_back = guide, config, ask, give_back
        self._lease = ask()
        self._end_by_s: float | None = None  # monotonic, seconds; None before it starts
        self._told = bytearray()

    def wait(self, timeout_s: float) -> Passed | Failure | None:
        """The trial's outcome; None where it still runs `timeout_s` seconds after this call, or
        after the trial's start if that is later."""
        try:
            if self._end_by_s is None:
                if not self._begins():
                    return self._lost()
                self._end_by_s = time.monotonic() + self._config.compile_timeout_s + _GRACE_S
            until_s = min(self._end_by_s, time.monotonic() + timeout_s)
            while not self._told.endswith(b"\n"):
                self._lease.settimeout(max(1e-3, until_s - time.monotonic()))
                piece = self._lease.recv(1 << 20)
                if not piece:
                    return self._lost()
                self._told += piece
            return self._outcome(json.loads(self._told))
        except TimeoutError:
            if self._end_by_s is not None and time.monotonic() < self._end_by_s:
                return None
            self.kill()  # in case the worker's own timer did not end it
            return self._lost() if self._end_by_s is None else too_slow(self._config)
        except OSError:
            return self._lost()

    def kill(self) -> None:
        """End the trial: a worker dies with its lease."""
        self._lease.close()

    def _begins(self) -> bool:
        """Wait until the trial starts. Returns whether it has. An idle worker that ended before it
        read the guide is replaced once."""
        self._lease.settimeout(_START_S)
        with suppress(ConnectionError):
            if self._lease.recv(1) == STARTED:
                return True
        self.kill()
        try:
            self._lease = self._ask()
        except EngineError:  # closing the sandbox has ended the worker
            return False
        self._lease.settimeout(_START_S)
        return self._lease.recv(1) == STARTED

    def _outcome(self, answer: dict[str, Any]) -> Passed | Failure:
        if answer.get("is_last", True):
            self.kill()
        else:
            self._give_back(self._lease)
        if "signal" in answer:
            return self._ended_by(answer["signal"])
        if "error" in answer:
            kind: type[Failure] = getattr(errors, answer["error"])
            error = kind.__new__(kind, answer["message"])
            vars(error).update(answer["fields"])
            return error
        outline = answer["written"].pop("outline")
        written = Written(**answer["written"], outline=outline and Outline(*outline))
        return Passed(written, answer["backend"], answer["num_bytes"])

    def _ended_by(self, number: int) -> Failure:
        if number == signal.SIGALRM:
            return too_slow(self._config)
        if number in _OUT_OF_MEMORY:
            return too_large(self._guide, self._config)
        return UnsupportedGuide(
            f"a grammar library crashes on this {self._guide.kind} ({signal.Signals(number).name})"
        )

    def _lost(self) -> CompilerBusy:
        self.kill()
        return CompilerBusy(
            "the process that compiles grammars has ended or does not start; try again"
        )


class Sandbox:
    """Starts trials; any thread may call it. The fork server starts with the first trial, and again
    if it has ended."""

    def __init__(self, vocabulary: Vocabulary, config: GuideConfig) -> None:
        self._vocabulary, self._config = vocabulary, config
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._idle: list[socket.socket] = []  # leases of idle workers
        self._is_closed = False

    def start(self, guide: Guide, requested: str) -> Trial:
        """Start to compile a guide by the requested backend, or "auto". Raises EngineError,
        CompilerBusy."""
        request = {
            "kind": guide.kind,
            "source": guide.source(),
            "backend": requested,
            "key_order": guide.key_order,
            "calls": guide.calls,
            "as_tag": guide.as_tag,
            "is_part": guide.is_part,
        }
        ask = partial(self._ask, json.dumps(request).encode() + b"\n")
        return Trial(guide, self._config, ask, self._take_back)

    def close(self) -> None:
        """End the server and all trials, so that nobody waits for them any more."""
        with self._lock:
            self._is_closed = True
            self._stop()

    def _ask(self, line: bytes) -> socket.socket:
        try:
            with self._lock:
                lease = self._lease()
            lease.settimeout(_START_S)
            with suppress(ConnectionError):  # its worker has ended, as the trial will notice
                lease.sendall(line)
        except OSError as error:
            raise CompilerBusy(
                f"the process that compiles grammars takes no work ({error}); try again"
            ) from error
        return lease

    def _lease(self) -> socket.socket:
        """The socket of an idle worker, or of a new one. The caller must hold the lock."""
        if self._is_closed:
            raise EngineError("the grammar compiler is closed")
        if self._control is None or self._server is None or self._server.poll() is not None:
            self._stop()
            self._control = self._launch()
        while self._idle:
            lease = self._idle.pop()
            if _is_silent(lease):
                return lease
            lease.close()
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"."], [theirs.fileno()])
        return ours

    def _take_back(self, lease: socket.socket) -> None:
        with self._lock:
            if self._is_closed:
                lease.close()
            else:
                self._idle.append(lease)

    def _launch(self) -> socket.socket:
        """Start a server and return its control socket."""
        control, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", _SERVE.format(path=sys.path), str(theirs.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **_ONE_THREAD},
                start_new_session=True,
            )
        assert self._server.stdin is not None
        with self._server.stdin as pipe:
            pickle.dump((self._vocabulary, self._config), pipe)
        return control

    def _stop(self) -> None:
        for lease in self._idle:
            lease.close()
        self._idle.clear()
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            try:
                self._server.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._control = self._server = None


def _is_silent(lease: socket.socket) -> bool:
    """Whether nothing has come by the lease; the end of an idle worker would have been reported
    there."""
    lease.settimeout(0)
    try:
        lease.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
