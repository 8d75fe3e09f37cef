"""Owns who asks: the name by which clients that wait take turns."""

from __future__ import annotations

from hashlib import blake2b

from starlette.requests import Request

from specguide.server.config import ServerConfig


def api_key(authorization: bytes) -> bytes:
    """Of the header of this name."""
    return authorization.removeprefix(b"Bearer ")


def client_of(request: Request, config: ServerConfig) -> str:
    """What the header says that names clients, else one name for each API key, from which nobody
    learns the key; none where nobody needs a key."""
    named = config.client_header and request.headers.get(config.client_header)
    if named:
        return f"header {_digest(named.encode())}"
    if not config.api_keys:
        return ""
    return f"key {_digest(api_key(request.headers.get('authorization', '').encode()))}"


def _digest(name: bytes) -> str:
    """Of a length that clients do not choose."""
    return blake2b(name, digest_size=12).hexdigest()
