"""Owns the sockets on which fronts listen: all on the same addresses, among which the kernel
distributes the connections."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from typing import Any

from specguide.errors import InvalidParams

Address = tuple[socket.AddressFamily, tuple[Any, ...]]
"""Family of a socket, and the address to which it is bound."""
_EVERY_ADDRESS = "::"  # IPv4 addresses, too
_REMEDIES = {
    errno.EADDRINUSE: ("port", "give another port, or stop the process that uses it"),
    errno.EACCES: (
        "port",
        "give a port from 1024 on, or run with the right to listen on lower ones",
    ),
}
_OTHER_HOST = ("host", "give an address of this machine, as 127.0.0.1 or ::1, or one of its names")


class Reservation:
    """Keeps a service's addresses reserved, even while it has no front. Nothing listens here.

    host, port: to listen on; "::": every address, of IPv4 too; port 0: a free one
    addresses:  of the fronts' listeners
    port:       theirs

    Raises InvalidParams where they are taken or not this machine's.
    """

    def __init__(self, host: str, port: int) -> None:
        self.port = port
        self._sockets = ExitStack()
        try:
            found = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            self.addresses = tuple(self._reserve(*one) for one in _distinct(found))
        except OSError as error:
            self.close()
            param, remedy = _REMEDIES.get(error.errno or 0, _OTHER_HOST)
            raise InvalidParams(
                f"cannot listen on {host} port {port}: {error.strerror}; {remedy}", param=param
            ) from None

    def close(self) -> None:
        """Close the sockets."""
        self._sockets.close()

    def _reserve(self, family: socket.AddressFamily, name: tuple[Any, ...]) -> Address:
        name = (name[0], self.port, *name[2:])
        with _socket(family, name) as probe:  # fails where anybody listens, even a like service
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(name)
        kept = self._sockets.enter_context(_socket(family, name))
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(name)
        self.port = kept.getsockname()[1]
        return family, kept.getsockname()


def listener(address: Address) -> socket.socket:
    """One more socket on an address. Its server calls listen() only when it accepts connections:
    otherwise the kernel would give it connections earlier, which would wait until it has
    started."""
    family, name = address
    one = _socket(family, name)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(name)
    one.setblocking(False)
    return one


def _distinct(found: list[Any]) -> list[Address]:
    """The addresses of a host's name, each once; if the address for all is among them, only that
    one."""
    addresses = list(dict.fromkeys((one[0], one[4]) for one in found))
    return [one for one in addresses if one[1][0] == _EVERY_ADDRESS] or addresses


def _socket(family: socket.AddressFamily, name: tuple[Any, ...]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, name[0] != _EVERY_ADDRESS)
    return one
