"""Owns the handling of unknown fields in requests: they are reported to each client and logged
once, or refused."""

from __future__ import annotations

import logging
from itertools import islice
from urllib.parse import quote

from specguide.errors import InvalidParams
from specguide.server.bodies.base_body import Body

HEADER = "x-specguide-ignored"
_MOST_TOLD = 16
_MOST_CHARS = 64
_MOST_LOGGED = 256
_LOGGER = logging.getLogger(__name__)


class UnknownFields:
    """Unknown fields of all requests. is_strict: they are refused"""

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._logged = set[tuple[str, str]]()

    def check(self, body: Body) -> None:
        """Raises InvalidParams for a body with unknown fields, where they are refused."""
        for name in islice(body.unknown_fields(), _MOST_TOLD):
            written = name.encode(errors="replace").decode()
            if self._is_strict:
                raise InvalidParams(
                    f"unknown field {written}: leave it out, or start the server without "
                    "--strict-fields",
                    param=written,
                )
            place = type(body).__name__, written[:_MOST_CHARS]
            if place not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(place)
                _LOGGER.warning(
                    "a %s has the unknown field %r, which is ignored; this is logged once, and "
                    "--strict-fields refuses such requests",
                    *place,
                )


def ignored_header(body: Body) -> dict[str, str]:
    """The header with the unknown fields' names, URL-encoded; empty where there are none."""
    names = [
        quote(name[:_MOST_CHARS], safe=".[]", errors="replace") or '""'
        for name in islice(body.unknown_fields(), _MOST_TOLD)
    ]
    return {HEADER: ", ".join(names)} if names else {}
