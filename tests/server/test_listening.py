"""Sockets that fronts share: none gets connections that it does not accept yet."""

import asyncio
import socket

import pytest

from specguide.errors import InvalidParams
from specguide.server.processes.listening import Reservation, listener

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


@pytest.mark.parametrize("host", ["::", ""])
def test_every_address_is_one_of_ipv4_too(host: str) -> None:
    reserved = Reservation(host, 0)
    with socket.socket() as other, pytest.raises(OSError):
        other.bind((HOST, reserved.port))
    with listener(*reserved.addresses) as front:
        front.listen()
        for one in (HOST, "::1"):
            socket.create_connection((one, reserved.port), timeout=5).close()
    reserved.close()


def test_the_remedy_is_of_what_is_wrong() -> None:
    reserved = Reservation(HOST, 0)
    with pytest.raises(InvalidParams, match="give another port") as refused:
        Reservation(HOST, reserved.port)
    assert refused.value.param == "port"
    reserved.close()
    for host in ("[::1]", "192.0.2.1"):
        with pytest.raises(InvalidParams, match="give an address of this machine") as refused:
            Reservation(host, 0)
        assert refused.value.param == "host"
