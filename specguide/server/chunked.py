"""Owns the framing of a stream's chunks on the wire, of which there is one for each token."""

from __future__ import annotations

from typing import Any

import h11


class ChunkedConnection(h11.Connection):
    """h11's connection, which frames the body of a chunked answer without its own rules for events:
    data behind data changes no state. Source: RFC 9112, section 7.1."""

    _is_chunked = False

    def send(self, event: Any) -> Any:
        """As h11.Connection.send."""
        if self._is_chunked and type(event) is h11.Data and self.our_state is h11.SEND_BODY:
            return b"%x\r\n%b\r\n" % (len(event.data), event.data) if event.data else b""
        output = super().send(event)
        if type(event) is h11.Response:
            self._is_chunked = b"transfer-encoding: chunked\r\n" in (output or b"").lower()
        return output
