"""Owns HTTP/1.1 on the wire where h11 and uvicorn fall short: reading heads of requests as RFC 9112
asks, and fast writing of an answer's chunks, one for each token."""

from __future__ import annotations

from typing import Any

import h11

_SCHEMES = (b"http", b"https")
_CLOSE = (b"connection", b"close")


class HttpConnection(h11.Connection):
    """h11's connection, with four differences. `fault` is the error in bytes that are not valid
    HTTP.

    Empty lines before a request are skipped: some clients end a body with one (section 2.2). A
    target in absolute form is read as one in origin form (section 3.2.2). A body with two framings,
    which request smuggling uses, is the connection's last (section 6.1). A data chunk is framed
    without h11's checks, since data after data changes no state (section 7.1).
    """

    fault: h11.RemoteProtocolError | None = None
    _is_chunked = False

    def next_event(self) -> Any:
        """See h11.Connection.next_event."""
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            self.fault = error
            raise
        if type(event) is not h11.Request:
            return event
        target, headers = _origin_form(event.target), list(event.headers)
        if {b"transfer-encoding", b"content-length"} <= {name for name, _ in headers}:
            headers.append(_CLOSE)
        elif target == event.target:
            return event
        return h11.Request(
            method=event.method, target=target, headers=headers, http_version=event.http_version
        )

    def receive_data(self, data: bytes) -> None:
        """See h11.Connection.receive_data. No bytes say that the client has ended."""
        is_between = self.their_state is h11.IDLE and not self._receive_buffer
        kept = data.lstrip(b"\r\n") if is_between else data
        if kept or not data:
            super().receive_data(kept)

    def start_next_cycle(self) -> None:
        """See h11.Connection.start_next_cycle."""
        super().start_next_cycle()
        come, _ = self.trailing_data
        self._receive_buffer.maybe_extract_at_most(len(come) - len(come.lstrip(b"\r\n")))

    def send(self, event: Any) -> Any:
        """See h11.Connection.send."""
        if self._is_chunked and type(event) is h11.Data and self.our_state is h11.SEND_BODY:
            return b"%x\r\n%b\r\n" % (len(event.data), event.data) if event.data else b""
        output = super().send(event)
        if type(event) is h11.Response:
            self._is_chunked = b"transfer-encoding: chunked\r\n" in (output or b"").lower()
        return output


def _origin_form(target: bytes) -> bytes:
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in _SCHEMES:
        return target
    authority = rest.partition(b"/")[0].partition(b"?")[0]
    path = rest[len(authority) :]
    return path if path.startswith(b"/") else b"/" + path
