"""Who asks, and what a server tells one who would wait too long."""

from __future__ import annotations

import httpx
import pytest
from live_server import KEY, small_server
from starlette.requests import Request

from specguide.errors import QueueFull
from specguide.server.config import ServerConfig
from specguide.server.http.clients import client_of
from specguide.server.http.errors import ApiError


def name(config: ServerConfig, **headers: str) -> str:
    """The name of the client that sends these headers."""
    raw = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    return client_of(Request({"type": "http", "headers": raw}), config)


def test_clients_are_told_apart_by_their_keys_which_stay_secret():
    config = ServerConfig("m", api_keys=("one secret", "another"))
    names = [name(config, authorization=f"Bearer {key}") for key in config.api_keys]
    assert len(set(names)) == 2 and not any("secret" in name for name in names)
    assert names[0] == name(config, authorization="Bearer one secret", x_user="eve")
    assert name(ServerConfig("m"), authorization="Bearer whatever") == ""


def test_a_header_tells_them_apart_where_the_server_is_told_so():
    config = ServerConfig("m", api_keys=("key",), client_header="X-User")
    key = dict(authorization="Bearer key")
    ann, ben = (name(config, x_user=user, **key) for user in ("ann", "b" * 9999))
    assert len({ann, ben, name(config, **key)}) == 3 and max(len(ann), len(ben)) < 40


@pytest.mark.parametrize(("told_s", "expected"), [(None, 1), (0.2, 1), (7.3, 8)])
def test_retry_after_is_what_the_engine_says(told_s, expected):
    error = ApiError.of(QueueFull("full", retry_after_s=told_s))
    assert error.status == 429 and error.response().headers["Retry-After"] == str(expected)


def test_who_would_wait_too_long_gets_429(monkeypatch):
    server = small_server(max_wait_s=2.0, client_header="X-User")
    body = {"model": "small", "prompt": "a", "max_tokens": 3, "priority": 1}
    headers = {"Authorization": f"Bearer {KEY}", "X-User": "ann"}
    asked, wait_s = [], server.engine._engine.wait_s
    try:
        monkeypatch.setattr(server.engine._engine, "wait_s", lambda *who: asked.append(who) or 2.1)
        refused = httpx.post(f"{server.url}/v1/completions", json=body, headers=headers)
        monkeypatch.setattr(server.engine._engine, "wait_s", wait_s)
        taken = httpx.post(f"{server.url}/v1/completions", json=body, headers=headers)
    finally:
        server.stop()
    assert refused.status_code == 429 and refused.headers["Retry-After"] == "1"
    assert "wait about 3 s, longer than max_wait_s (2 s)" in refused.json()["error"]["message"]
    assert taken.status_code == 200 and [priority for _, priority in asked] == [1]
    assert asked[0][0].startswith("header ")
