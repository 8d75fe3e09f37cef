"""Owns TLS: the server's certificate, and the check of clients' certificates."""

from __future__ import annotations

import ssl
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.config import Exposure


def check_tls(exposure: Exposure) -> None:
    """Raises InvalidParams where a certificate or key cannot be used."""
    if exposure.ssl_certfile is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    param = "ssl_certfile"
    try:
        context.load_cert_chain(exposure.ssl_certfile, exposure.ssl_keyfile, _no_password)
        if exposure.ssl_ca_certs is not None:
            param = "ssl_ca_certs"
            context.load_verify_locations(exposure.ssl_ca_certs)
    except (OSError, ValueError) as error:
        raise InvalidParams(
            f"{getattr(exposure, param)} cannot be used for TLS: {error}", param=param
        ) from error


def tls_options(exposure: Exposure) -> dict[str, Any]:
    """Arguments of uvicorn.Config for TLS."""
    if exposure.ssl_certfile is None:
        return {}
    needs_certificate = exposure.ssl_ca_certs is not None
    return {
        "ssl_certfile": exposure.ssl_certfile,
        "ssl_keyfile": exposure.ssl_keyfile,
        "ssl_ca_certs": exposure.ssl_ca_certs and str(exposure.ssl_ca_certs),
        "ssl_cert_reqs": ssl.CERT_REQUIRED if needs_certificate else ssl.CERT_NONE,
    }


def _no_password() -> str:
    """Refuses an encrypted key; otherwise OpenSSL would ask for its password in the terminal."""
    raise ValueError("the key has a password; give a key without one")
