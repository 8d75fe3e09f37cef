"""How requests are sampled that do not say it: as the model's generation_config.json recommends."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from live_server import Server

from specguide.config import EngineConfig
from specguide.engine.setup.target_folder import target_folder
from specguide.errors import CheckpointError, InvalidParams
from specguide.guide import Guide
from specguide.server.bodies.requests import ChatRequest, CompletionRequest
from specguide.server.bodies.sampling_defaults import sampling_defaults
from specguide.server.config import ServerConfig
from specguide.server.processes.plans import ServicePlan

STATED = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": None, "max_new_tokens": 5}
DEFAULTS = {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
ASKED = {"input": "hi", "max_output_tokens": 1}


def folder_with(folder: Path, **stated: object) -> Path:
    """The shipped model, with a generation_config.json that says more."""
    for path in target_folder(None).iterdir():
        if path.name != "generation_config.json":
            (folder / path.name).symlink_to(path)
    own = json.loads((target_folder(None) / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**own, **stated}))
    return folder


def test_the_models_values_hold_where_a_request_has_none(tmp_path):
    server = Server(EngineConfig(folder_with(tmp_path, **STATED)), ServerConfig("small"))
    with httpx.Client(base_url=server.url) as http:
        told = [
            http.post("/v1/responses", json={**ASKED, **fields}).json()
            for fields in ({}, {"temperature": 0}, {"temperature": None, "top_p": 1.0})
        ]
    server.stop()
    assert [(one["temperature"], one["top_p"]) for one in told] == [
        (0.6, 0.95),
        (0, 0.95),
        (0.6, 1),
    ]


@pytest.mark.parametrize(
    ("body", "prompt"), [(ChatRequest, {"messages": []}), (CompletionRequest, {"prompt": "x"})]
)
def test_what_a_request_says_holds(body, prompt):
    asked = {**prompt, "top_k": 3, "top_p": None}
    params = body.model_validate(asked).sampling({**DEFAULTS, "repetition_penalty": 1.05})
    assert (params.temperature, params.top_p, params.top_k) == (0.6, 0.95, 3)
    assert params.repetition_penalty == 1.05 and params.min_p == 0
    assert body.model_validate(asked).sampling({}).temperature == 1


def test_a_top_p_of_0_is_the_likeliest_token_as_a_request_has_it(tmp_path):
    defaults = sampling_defaults(ServerConfig("small"), folder_with(tmp_path, top_p=0))
    left_out, asked = {"prompt": "x"}, {"prompt": "x", "top_p": 0}
    params = CompletionRequest.model_validate(left_out).sampling(defaults)
    assert defaults == {"top_p": 0}
    assert params == CompletionRequest.model_validate(asked).sampling({})


def test_a_faithful_request_has_the_models_own_probabilities():
    body = CompletionRequest.model_validate({"prompt": "x", "faithful": True})
    params = body.sampling(DEFAULTS, guide=Guide(choice=["a", "b"]))
    assert (params.temperature, params.top_p, params.top_k) == (1, 1, 0)


def test_where_they_are_from(tmp_path):
    folder = folder_with(tmp_path, **STATED)
    assert sampling_defaults(ServerConfig("small"), folder) == DEFAULTS
    assert sampling_defaults(ServerConfig("small", sampling_defaults="openai"), folder) == {}
    assert sampling_defaults(ServerConfig("small"), None) == {}  # the shipped one says none
    with pytest.raises(
        InvalidParams, match="sampling_defaults must be one of model, openai; found 'odd'"
    ):
        ServerConfig("small", sampling_defaults="odd")


@pytest.mark.parametrize("stated", [{"temperature": -1}, {"top_p": "0.9"}, {"top_k": True}])
def test_values_that_there_cannot_be_are_told_before_anything_starts(tmp_path, stated):
    folder = folder_with(tmp_path, **stated)
    with pytest.raises(CheckpointError, match=r"generation_config.json: .*--sampling-defaults op"):
        ServicePlan(EngineConfig(folder), ServerConfig("small"))
