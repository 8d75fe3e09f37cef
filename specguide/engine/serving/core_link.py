"""Owns a front's socket to the core, for one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import zmq

from specguide.engine.serving import wire

_LOGGER = logging.getLogger(__name__)


class CoreLink:
    """A connection to one core. Only its event loop's thread may use it.

    address: address of the core's socket
    name:    name of this front, by which the core distinguishes fronts
    take:    called with each message
    """

    def __init__(
        self,
        address: str,
        name: str,
        take: Callable[[wire.Deltas | wire.Refused | wire.Answer | wire.Failed], None],
    ) -> None:
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.ROUTING_ID, name.encode())
        for option in (zmq.SNDHWM, zmq.RCVHWM, zmq.LINGER):  # nothing is dropped until it is closed
            self._socket.setsockopt(option, 0)
        self._socket.connect(address)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._read)

    def send(self, number: int, message: wire.Message) -> None:
        """Send a message. Never waits. Raises OverflowError for an integer of more than 64 bits.

        number: the number of its request or question
        """
        frames = (wire.number_frame(number), wire.ENCODER.encode(message))
        self._socket.send_multipart(frames, zmq.NOBLOCK)
        if self._has_unread():  # the socket notifies the event loop only once
            self._loop.call_soon(self._read)

    def close(self) -> None:
        """Close the connection; messages that were not sent yet are dropped."""
        self._loop.remove_reader(self._fd)
        self._socket.close()

    def _has_unread(self) -> bool:
        return not self._socket.closed and bool(
            int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN
        )

    def _read(self) -> None:
        while self._has_unread():
            frame = self._socket.recv(zmq.NOBLOCK)
            try:
                message = wire.FROM_CORE.decode(frame)
            except wire.MALFORMED as error:
                _LOGGER.warning("dropped an unreadable message of the engine's process: %s", error)
            else:
                self._take(message)
