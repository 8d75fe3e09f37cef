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


@pytest.mark.parametrize("size", [1, 2, 3, 200])
def test_empty_lines_between_requests_are_skipped(size):
    server = HttpConnection(h11.SERVER)
    come = b"\r\n\r\nPOST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi\r\n\r\n"
    come += b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n"
    targets = []
    for begin in range(0, len(come), size):
        server.receive_data(come[begin : begin + size])
        while (event := server.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            assert not isinstance(event, h11.ConnectionClosed)
            if isinstance(event, h11.Request):
                targets.append(event.target)
            if isinstance(event, h11.EndOfMessage):
                server.send(h11.Response(status_code=200, headers=[(b"Content-Length", b"0")]))
                server.send(h11.EndOfMessage())
                server.start_next_cycle()
    assert targets == [b"/a", b"/b"]
