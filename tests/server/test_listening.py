"""Sockets that fronts share: none gets connections that it does not accept yet."""

import asyncio
import socket

import pytest

from specguide.server.listening import Reservation, listener

HOST = "127.0.0.1"


def test_a_front_that_is_being_started_gets_no_connections() -> None:
    reserved = Reservation(HOST, 0)
    starting = listener(reserved.addresses[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, reserved.port), timeout=5)
    answers = asyncio.run(_answers_of_another(reserved))
    assert answers == [b"ready"] * 32
    starting.close()
    reserved.close()


async def _answers_of_another(reserved: Reservation) -> list[bytes]:
    """What clients hear where one front of two has started."""

    async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ready")
        writer.close()

    async with await asyncio.start_server(tell, sock=listener(reserved.addresses[0])):
        return [await _answer(reserved.port) for _ in range(32)]


async def _answer(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    said = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return said
