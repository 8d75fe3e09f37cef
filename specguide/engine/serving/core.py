"""Owns the core of a service: a process that has only the engine and its loop, and that fronts send
requests to."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import NoReturn

import zmq
from tqdm import tqdm

from specguide.engine.engine import Engine
from specguide.engine.serving import wire
from specguide.engine.serving.control import (
    CoreFacts,
    CorePlan,
    FrontLeft,
    StartFailure,
    Stop,
    order_of,
)
from specguide.engine.serving.loop import REQUEST_LOGGER, EngineLoop
from specguide.engine.serving.served import check_room, check_wait
from specguide.engine.serving.stream import RequestDelta
from specguide.engine.serving.wire_data import error_data, params_of, wire_delta
from specguide.engine.serving.wire_images import prompt_of
from specguide.errors import (
    EngineClosed,
    EngineError,
    InvalidParams,
    RequestError,
    SpecguideError,
    UserError,
)
from specguide.host.processes import live_with, settle

_FLUSH_MS = 500
"""Longest time to send the remaining messages when the core ends, milliseconds."""
_LOGGER = logging.getLogger(__name__)

Key = tuple[bytes, int]
"""A request's key: the name of its front, and the front's number for it."""


class Fronts:
    """Inbox and outbox of a core's loop: it reads the messages of fronts and of the supervisor, and
    sends deltas and answers to fronts. Only the loop's thread uses it, except for `wake`.

    loop: must be set before the first `take`
    """

    loop: EngineLoop[Key]

    def __init__(self, engine: Engine, plan: CorePlan, control: Connection) -> None:
        self._engine, self._plan, self._control = engine, plan, control
        self.max_unfinished = engine.config.max_batch_size + plan.max_waiting
        self._names: set[bytes] = set()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        for option in (zmq.SNDHWM, zmq.RCVHWM):
            self._socket.setsockopt(option, 0)  # no limit, so no message is dropped
        self._socket.setsockopt(zmq.LINGER, _FLUSH_MS)
        self._socket.bind(plan.address)
        self._wakes = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller = zmq.Poller()
        for source in (self._socket, self._wakes, control.fileno()):
            self._poller.register(source, zmq.POLLIN)

    def wake(self) -> None:
        os.eventfd_write(self._wakes, 1)

    def take(self, wait_s: float) -> None:
        ready = dict(self._poller.poll(math.ceil(1000 * wait_s)))
        if self._wakes in ready:
            os.eventfd_read(self._wakes)
        if self._socket in ready:
            self._read()
        if self._control.fileno() in ready:  # last, after the messages of a front that is gone
            self._obey()

    def send(self, news: Sequence[tuple[Key, RequestDelta]]) -> Sequence[Key]:
        letters: dict[bytes, list[wire.Delta]] = defaultdict(list)
        for (front, request), delta in news:
            letters[front].append(wire_delta(request, delta))
        for front, deltas in letters.items():
            self._tell(front, wire.Deltas(deltas))
        return ()

    def fail(self, error: EngineError) -> None:
        for front in self._names:
            self._tell(front, wire.Failed(error_data(error)))
        if self._plan.may_restart:
            self.end(1)

    def end(self, exit_code: int) -> NoReturn:
        """Send the remaining messages, and end the process at once: threads of libraries would
        delay an orderly end."""
        self._socket.close()
        zmq.Context.instance().term()
        logging.shutdown()
        os._exit(exit_code)

    def _obey(self) -> None:
        match order_of(self._control):
            case FrontLeft(front):
                self._names.discard(front.encode())
                for key in self.loop.live:
                    if key[0] == front.encode():
                        self.loop.cancel(key)
            case Stop(drain_s):
                self.loop.begin_close(drain_s)

    def _read(self) -> None:
        while True:
            try:
                # not copied: images have megabytes
                name, *frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            front = name.bytes
            try:
                message = wire.FROM_FRONT.decode(frames[-1].buffer)
            except wire.MALFORMED as error:
                _LOGGER.warning("dropped an unreadable message of front %r: %s", front, error)
                self._refuse_unread(front, wire.number_of(frames[0].bytes), error)
            else:
                self._names.add(front)
                self._carry_out(front, message)

    def _refuse_unread(self, front: bytes, number: int | None, cause: Exception) -> None:
        """End the request that an unreadable message was about, if that is known, so that nobody
        waits for ever."""
        if number is None:
            return
        self.loop.cancel((front, number))
        error = RequestError(f"the engine's process cannot read the request: {cause}")
        self._tell(front, wire.Refused(number, error_data(error)))

    def _carry_out(self, front: bytes, message: wire.AddRequest | wire.Cancel | wire.Ask) -> None:
        match message:
            case wire.AddRequest():
                try:
                    self._add((front, message.request), message)
                except SpecguideError as error:
                    self._tell(front, wire.Refused(message.request, error_data(error)))
            case wire.Cancel(request):
                self.loop.cancel((front, request))
            case wire.Ask():
                self._tell(front, self._answer(message))

    def _add(self, key: Key, message: wire.AddRequest) -> None:
        params = params_of(message.params)
        ids = prompt_of(message.prompt_ids, message.images)
        if not ids or min(ids) < 0 or max(ids) >= self._engine.vocab_size:
            raise InvalidParams(
                "the prompt is empty, or has token ids outside the vocabulary of "
                f"{self._engine.vocab_size}",
                param="prompt",
            )
        if key in self.loop.live:
            raise InvalidParams(f"request {key[1]} is under way already")
        if self.loop.is_closing:
            raise EngineClosed("the engine is being closed")
        check_room(params.n, self.loop.num_live, self.max_unfinished)
        wait_s = self._engine.wait_s(message.client, message.priority)
        check_wait(wait_s, self._plan.max_wait_s)
        add = partial(
            self._engine.add,
            ids,
            params,
            priority=message.priority,
            arrival_s=message.arrival_s,
            client=message.client,
            external_id=message.external_id,
        )
        self.loop.add(key, params.n, add)

    def _answer(self, message: wire.Ask) -> wire.Answer:
        try:
            if message.about == "stats":
                return wire.Answer(message.question, stats=self._engine.stats())
            return wire.Answer(message.question, spans=self._engine.spans())
        except SpecguideError as error:
            return wire.Answer(message.question, error=error_data(error))

    def _tell(self, front: bytes, message: wire.Message) -> None:
        self._socket.send_multipart((front, wire.ENCODER.encode(message)))


def run_core(plan: CorePlan, control: Connection, parent_pid: int) -> None:
    """Run the process of a core until it ends. Exit codes: 0 after Stop, 1 where its engine
    failed."""
    live_with(parent_pid, "specguide-core")
    tqdm.set_lock(threading.RLock())  # tqdm's own lock would outlive a process that is killed
    try:
        engine = Engine(plan.config, makes_texts=False)
        engine.warm_up()
    except SpecguideError as error:
        control.send(StartFailure(str(error), isinstance(error, UserError)))
        sys.exit(1)
    if plan.log_requests:
        _log_requests()
    fronts = Fronts(engine, plan, control)
    fronts.loop = EngineLoop(engine, fronts, fronts)
    settle()
    control.send(facts_of_core(engine, fronts.max_unfinished))
    fronts.loop.run()
    fronts.end(0 if fronts.loop.failure is None else 1)


def _log_requests() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    REQUEST_LOGGER.addHandler(handler)
    REQUEST_LOGGER.setLevel(logging.INFO)


def facts_of_core(engine: Engine, max_unfinished: int) -> CoreFacts:
    """The facts about an engine that fronts must know."""
    return CoreFacts(
        engine.config,
        engine.vocab_size,
        engine.max_model_len,
        max_unfinished,
        str(engine.cache_size),
        engine.stats(),
    )
