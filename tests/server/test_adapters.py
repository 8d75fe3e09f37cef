"""A service with LoRA adapters: a request names one of them as its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from live_server import until
from lora_adapters import adapter
from service import serving

from specguide.config import EngineConfig
from specguide.engine.setup.target_folder import target_folder
from specguide.errors import InvalidParams
from specguide.server.config import ServerConfig
from specguide.server.processes.plans import ServicePlan

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}


def test_a_request_names_an_adapter_as_its_model(tmp_path: Path) -> None:
    first, second = (
        adapter(tmp_path / name, target_folder(None), i) for i, name in enumerate("ab")
    )
    # Several values of an option, as vLLM takes them.
    options = ("--lora-modules", f"first={first}", f"second={second}", "--enable-lora")
    with (
        serving(*options, "--log-requests") as service,
        httpx.Client(base_url=service.url, timeout=60) as client,
    ):

        def ask(path: str, model: str, **fields: Any) -> dict[str, Any]:
            return client.post(path, json={"model": model, **fields}).json()

        def completed(model: str) -> str:
            asked = {"prompt": "The bridge", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
            answer = ask("/v1/completions", model, **asked)
            assert answer["model"] == model
            return answer["choices"][0]["text"]

        assert len({completed(name) for name in ("small", "first", "second")}) == 3
        listed = client.get("/v1/models").json()["data"]
        assert [(it["id"], it["parent"]) for it in listed] == [
            ("small", None),
            ("first", "small"),
            ("second", "small"),
        ]
        messages = [{"role": "user", "content": "hi"}]
        asked = {"messages": messages, "response_format": FORMAT, "max_tokens": 30}
        chat = ask("/v1/chat/completions", "first", **asked)
        assert chat["model"] == "first" and chat["choices"][0]["message"]["content"][0] == "{"
        wrong = ask("/v1/completions", "third", prompt="a")["error"]
        assert "'small', 'first', 'second'" in wrong["message"]
        until(lambda: '"lora": "first"' in service.errors, 10)
        refused = ask("/v1/completions", "small", prompt="a", lora_path="first")["error"]
        assert "name of the adapter as model" in refused["message"]


def test_an_adapter_that_is_called_like_the_model() -> None:
    engine = EngineConfig(lora_modules=("small=/adapter",))
    with pytest.raises(InvalidParams, match="another name"):
        ServicePlan(engine, ServerConfig("small"))
