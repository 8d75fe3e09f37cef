"""Owns a socket to other engines, with a thread of its own, so that the loop never waits for the
network.

It carries messages made of frames, and does not know what they mean. Another transport, for example
one that writes into a GPU's memory, would replace it here.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from specguide.errors import InvalidParams

Frames = Sequence[Any]
"""The parts of one message: bytes, or objects that have a buffer."""

_TICK_MS = 100
_HEARTBEAT_MS = 2000
_CONNECTED = zmq.EVENT_HANDSHAKE_SUCCEEDED


class Link:
    """Sends and receives messages in the background.

    take:     called on the link's thread with the frames of each message. On the side that listens,
              the first frame is the sender's name, also of messages that are sent
    not_sent: called with a message for which there is no connection
    on_lost:  called when the connection is lost
    on_tick:  called several times a second

    Raises InvalidParams where the address cannot be used.
    """

    def __init__(
        self,
        address: str,
        take: Callable[[list[zmq.Frame]], None],
        *,
        listens: bool,
        max_frame_bytes: int,
        not_sent: Callable[[Frames], None] = lambda _: None,
        on_lost: Callable[[], None] = lambda: None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._take, self._not_sent = take, not_sent
        self._on_lost, self._on_tick = on_lost, on_tick
        self._outbox: deque[Frames] = deque()
        self._is_closed = False
        self._socket = _socket(listens=listens, max_frame_bytes=max_frame_bytes)
        self.is_connected = False
        """Whether the other side is there; kept only on the side that connects."""
        self._monitor = self._socket.get_monitor_socket(_CONNECTED | zmq.EVENT_DISCONNECTED)
        _attach(self._socket, address, listens=listens)
        self._wakes = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="kv-transfer", daemon=True)
        self._thread.start()

    def send(self, frames: Frames) -> None:
        """Queue a message to be sent. Never waits. From any thread."""
        self._outbox.append(frames)
        os.eventfd_write(self._wakes, 1)

    def close(self) -> None:
        """Close the socket; messages that were not sent yet are dropped. Does nothing where it is
        closed already."""
        if self._is_closed:
            return
        self._is_closed = True
        os.eventfd_write(self._wakes, 1)
        self._thread.join()
        os.close(self._wakes)

    def _run(self) -> None:
        poller = zmq.Poller()
        for source in (self._socket, self._monitor, self._wakes):
            poller.register(source, zmq.POLLIN)
        while not self._is_closed:
            ready = dict(poller.poll(_TICK_MS))
            if self._wakes in ready:
                os.eventfd_read(self._wakes)
            if self._monitor in ready:
                self.is_connected = recv_monitor_message(self._monitor)["event"] == _CONNECTED
                if not self.is_connected:
                    self._on_lost()
            if self._socket in ready:
                self._take(self._socket.recv_multipart(copy=False))
            self._send_all()
            self._on_tick()
        self._socket.disable_monitor()
        self._socket.close()

    def _send_all(self) -> None:
        while self._outbox:
            frames = self._outbox.popleft()
            try:
                self._socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
            except zmq.ZMQError:  # there is no connection
                self._not_sent(frames)


def _socket(*, listens: bool, max_frame_bytes: int) -> zmq.Socket[bytes]:
    kind = zmq.ROUTER if listens else zmq.DEALER
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    options = {
        zmq.LINGER: 0,
        zmq.SNDHWM: 0,
        zmq.RCVHWM: 0,
        zmq.MAXMSGSIZE: max_frame_bytes,  # a larger frame ends its connection, and is not read
        zmq.HEARTBEAT_IVL: _HEARTBEAT_MS,
        zmq.IMMEDIATE: 1,  # messages are not queued for a connection that does not exist yet
    }
    for option, value in options.items():
        socket.setsockopt(option, value)
    if listens:
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    return socket


def _attach(socket: zmq.Socket[bytes], address: str, *, listens: bool) -> None:
    try:
        (socket.bind if listens else socket.connect)(address)
    except zmq.ZMQError as error:
        socket.disable_monitor()
        socket.close()
        raise InvalidParams(
            f"kv_transfer_address {address!r} cannot be used: {error}; write tcp://HOST:PORT "
            "with a port that is free",
            param="kv_transfer_address",
        ) from error
