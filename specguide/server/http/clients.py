"""Owns the names of clients, by which waiting clients take turns."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from starlette.requests import Request

from specguide.server.config import ServerConfig


def api_key(headers: Mapping[str, str]) -> str:
    """The key in `Authorization: Bearer`, or else in `x-api-key`."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def client_of(request: Request, config: ServerConfig) -> str:
    """A name made from the header that names clients, or else from the API key, which cannot be
    recovered from it; empty where no key is needed."""
    named = config.client_header and request.headers.get(config.client_header)
    if named:
        return f"header {_digest(named.encode())}"
    if not config.api_keys:
        return ""
    return f"key {_digest(api_key(request.headers).encode())}"


def _digest(name: bytes) -> str:
    """A digest of the name, whose length does not depend on the client."""
    return blake2b(name, digest_size=12).hexdigest()
