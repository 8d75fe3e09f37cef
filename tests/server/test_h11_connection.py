"""Chunks of answers are on the wire what h11 makes of them."""

from __future__ import annotations

import h11
import pytest

from specguide.server.http.h11_connection import HttpConnection

CHUNKS = [b"data: a\n\n", b"", b"x" * 5000, bytearray(b"end")]


def sent(kind: type[h11.Connection], request: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The bytes of two answers on one connection, the second without a body."""
    connection, output = kind(h11.SERVER), b""
    for _ in range(2):
        connection.receive_data(request)
        while type(connection.next_event()) is not h11.EndOfMessage:
            pass
        output += connection.send(h11.Response(status_code=200, headers=headers)) or b""
        for chunk in CHUNKS:
            output += connection.send(h11.Data(data=chunk)) or b""
        output += connection.send(h11.EndOfMessage()) or b""
        if connection.our_state is h11.MUST_CLOSE:
            break
        connection.start_next_cycle()
    return output


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"5012")]])
def test_bytes_are_those_of_h11(version, headers):
    request = b"GET / HTTP/%b\r\nHost: x\r\n\r\n" % version
    found = sent(HttpConnection, request, headers)
    assert found == sent(h11.Connection, request, headers)


def test_what_h11_refuses_is_refused():
    connection = HttpConnection(h11.SERVER)
    with pytest.raises(h11.LocalProtocolError):
        connection.send(h11.Data(data=b"x"))
