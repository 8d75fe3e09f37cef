"""Owns what RFC 9112 asks of a request's head beside what h11 and uvicorn make of it."""

from __future__ import annotations

from typing import Any

import h11

from specguide.server.chunked import ChunkedConnection

_SCHEMES = (b"http", b"https")
_CLOSE = (b"connection", b"close")


class RequestHeads(ChunkedConnection):
    """A target in absolute form is the same as one in origin form (section 3.2.2). A body that is
    framed twice, as smuggled requests are, is the connection's last (section 6.1)."""

    def next_event(self) -> Any:
        """As h11.Connection.next_event."""
        event = super().next_event()
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


def _origin_form(target: bytes) -> bytes:
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in _SCHEMES:
        return target
    authority = rest.partition(b"/")[0].partition(b"?")[0]
    path = rest[len(authority) :]
    return path if path.startswith(b"/") else b"/" + path
