"""Owns the server process that tries compiles: it holds the libraries and a vocabulary, and forks
workers.

`main` runs in an interpreter of its own, which has neither CUDA nor threads, so that forking it is
safe. A fork has the tables of the vocabulary without building or copying them. A worker compiles
guide after guide; the kernel ends it when a compile exceeds its time, and refuses it more than its
memory. The socket by which guides come is the worker's lease: when the other end is closed, the
worker is killed. When the control socket is closed, or the process at its other end has died,
server and workers all end.

A guide is a line of JSON on the lease: {"kind", "source", "backend", "key_order", "calls",
"as_tag", "is_part"}. The answer is STARTED when the guide's time begins, and then one line: either
how the guide is written for the backend, and the memory that the grammar takes, {"written",
"backend", "num_bytes", "is_last"}; or an error, {"error", "message", "fields", "is_last"}; or that
a signal ended the worker, {"signal"}.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import gc
import json
import os
import pickle
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from specguide.config import GuideConfig
from specguide.errors import GuideLimitExceeded
from specguide.guide import Guide
from specguide.guided.backends import BACKENDS, backend_names
from specguide.guided.compiling.absent_torch import import_without_torch
from specguide.guided.compiling.libraries import Enforced, Libraries, outcome

STARTED = b"."
QUICK_S = 0.5
"""A compile that takes longer is slow, in seconds."""
STACK_BYTES = 256 << 20
"""Stack size of a thread that compiles, in bytes: the libraries recurse into nested schemas and
chains of rules."""
_SLACK_BYTES = 16 << 20  # for Python and the answer
_MOST_LEFT_BYTES = 128 << 20
"""Most memory, in bytes, that a worker may hold after a guide beyond what it had at its start."""
_MOST_ANSWER_CHARS = 32 << 20
_SLOW_NICENESS = 15
_WITH_TORCH = "--with-torch"
_ANY = Guide(choice=["a"])
_PR_SET_PDEATHSIG = 1
_RESIDENT, _DATA = 1, 5  # fields of /proc/self/statm


@dataclass(frozen=True)
class _Worker:
    """A forked worker: its process, the socket by which its guides come, and a pipe that closes
    when the process ends."""

    pid: int
    lease: socket.socket
    life: int


class _Server:
    """The loop of the server process: it forks a worker for each lease that comes by the control
    socket."""

    def __init__(self, control: socket.socket, libraries: Libraries) -> None:
        self._control, self._libraries = control, libraries
        self._workers: dict[int, _Worker] = {}  # by each of its two descriptors
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Serve leases until the control socket is closed."""
        while True:
            # one event at a time, since handling it may close the descriptors of others
            fd = self._poll.poll()[0][0]
            if fd == self._control.fileno():
                message, fds, _, _ = socket.recv_fds(self._control, 1, 1)
                if not message:
                    return
                self._begin(socket.socket(fileno=fds[0]))
            else:
                worker = self._workers.pop(fd)
                self._poll.unregister(fd)
                if fd == worker.life:
                    self._end(worker)
                else:  # its client has closed the lease
                    os.kill(worker.pid, signal.SIGKILL)

    def _begin(self, lease: socket.socket) -> None:
        life, alive = os.pipe()
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _run_worker(
                server, lease, [self._control.fileno(), life, *self._workers], self._libraries
            )
        os.close(alive)
        worker = _Worker(pid, lease, life)
        for fd in (lease.fileno(), life):
            self._workers[fd] = worker
            self._poll.register(fd, 0)  # reports only that the other end was closed

    def _end(self, worker: _Worker) -> None:
        """Clean up after a process that has ended. Where a signal ended it, tell its lease."""
        if self._workers.pop(worker.lease.fileno(), None) is not None:
            self._poll.unregister(worker.lease)
        status = os.waitpid(worker.pid, 0)[1]
        if os.WIFSIGNALED(status):
            _send(worker.lease, {"signal": os.WTERMSIG(status)})
        worker.lease.close()
        os.close(worker.life)


def main() -> None:
    """Run the server. Standard input holds the pickled vocabulary and limits, the argument is the
    control socket's number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the engine decides when this ends
    if _WITH_TORCH not in sys.argv and not all(map(import_without_torch, _packages_on_torch())):
        os.execv(sys.executable, [*sys.orig_argv, _WITH_TORCH])
    control = socket.socket(fileno=int(sys.argv[1]))
    vocabulary, config = pickle.load(sys.stdin.buffer)
    libraries = Libraries(vocabulary, config)
    for name in backend_names():  # builds their tables; the forks report errors again
        outcome(_ANY, config, functools.partial(libraries.compile, _ANY, name))
    _be_silent()
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # tvm_ffi would write a backtrace, for a second
    gc.freeze()  # a fork that collected this garbage would copy its pages
    _Server(control, libraries).run()


def _packages_on_torch() -> list[str]:
    """The packages that import torch but need only names from it."""
    libraries = (spec.library for spec in BACKENDS.values())
    return [
        library.package
        for library in libraries
        if library.imports_torch and library.package is not None
    ]


def _be_silent() -> None:
    """Silence the libraries when they crash; the server reports a crash in its own way."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def _run_worker(
    server: int, lease: socket.socket, others: Iterable[int], libraries: Libraries
) -> NoReturn:
    """Run a worker until its end. others: the server's descriptors, which must not stay open
    here"""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == server:
            for fd in others:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _work(lease, libraries)
    finally:
        os._exit(0)


def _work(lease: socket.socket, libraries: Libraries) -> None:
    """Answer guides until no more come, or one has left too much memory in use."""
    threading.stack_size(STACK_BYTES)
    before = _memory_bytes(_RESIDENT)
    is_last = False
    with lease.makefile("rb") as lines:
        while not is_last:
            request = json.loads(lines.readline())
            with _limits(libraries.config):
                lease.sendall(STARTED)
                answer = _answer_beside(request, libraries)
            is_last = _memory_bytes(_RESIDENT) > before + _MOST_LEFT_BYTES
            _send(lease, {**answer, "is_last": is_last})


def _memory_bytes(field: int) -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[field]) * resource.getpagesize()


@contextmanager
def _limits(config: GuideConfig) -> Iterator[None]:
    """A context in which a timer ends this process when the compile exceeds its time, and the
    kernel gives it no more than its share of memory."""
    most = _memory_bytes(_DATA) + STACK_BYTES + _SLACK_BYTES + config.max_compile_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_REAL, config.compile_timeout_s)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _answer_beside(request: dict[str, Any], libraries: Libraries) -> dict[str, Any]:
    """Make the answer on a thread with a large stack. The thread gets a lower priority when it
    takes long."""
    answers: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(_answer(request, libraries)))
    thread.start()
    thread.join(QUICK_S)
    if thread.is_alive() and thread.native_id is not None:
        os.setpriority(os.PRIO_PROCESS, thread.native_id, _SLOW_NICENESS)
        thread.join()
    return answers[0]


def _answer(request: dict[str, Any], libraries: Libraries) -> dict[str, Any]:
    before = _memory_bytes(_RESIDENT)
    parts = {name: request[name] for name in ("key_order", "calls", "as_tag", "is_part")}
    guide = read_guide(request["kind"], request["source"], **parts)
    found = outcome(
        guide,
        libraries.config,
        lambda: libraries.first_enforcing(guide, request["backend"], _go_on),
    )
    if isinstance(found, Enforced) and len(found.written.text) > _MOST_ANSWER_CHARS:
        found = GuideLimitExceeded(
            f"the {guide.kind} is too large once it is written out; make it smaller",
            limit="max_source_bytes",
        )
    if isinstance(found, Enforced):
        return {
            "written": dataclasses.asdict(found.written),
            "backend": found.backend,
            "num_bytes": max(0, _memory_bytes(_RESIDENT) - before),
        }
    return {"error": type(found).__name__, "message": str(found), "fields": vars(found)}


def _go_on(backend: str) -> None:
    """Allow each backend to be tried: the worker has no reason to refuse one."""


def read_guide(kind: str, source: str, **parts: Any) -> Guide:
    """A guide from its kind, its canonical text, and further fields."""
    value: Any = {"json_object": True}.get(kind, source)
    value = json.loads(source) if kind == "choice" else value
    return Guide(**{kind: value}, **parts)


def _send(lease: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(OSError):  # the other end is closed
        lease.sendall(json.dumps(answer).encode() + b"\n")
