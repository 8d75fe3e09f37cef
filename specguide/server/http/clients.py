"""Owns who asks: the name by which clients that wait take turns."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from starlette.requests import Request

from specguide.server.config import ServerConfig


def api_key(headers: Mapping[str, str]) -> str:
    """What `Authorization: Bearer` says, or else `x-api-key`."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def client_of(request: Request, config: ServerConfig) -> str:
    """What the header says that names clients, else one name for each API key, from which nobody
    learns the key; none where nobody needs a key."""
    named = config.client_header and request.headers.get(config.client_header)
    if named:
        return f"header {_digest(named.encode())}"
    if not config.api_keys:
        return ""
    return f"key {_digest(api_key(request.headers).encode())}"


def _digest(name: bytes) -> str:
    """A digest of the name, of a length that clients do not choose."""
    return blake2b(name, digest_size=12).hexdigest()
