"""A GPU of this host and one of a host that joins give the tokens of one GPU.

The two hosts are processes of one machine, each of which sees one GPU. NCCL takes them for two
hosts, so that all goes through sockets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from joined_hosts import KEY, free_address, joining
from requests_of_every_kind import PATIENT, SPECS, outputs

from specguide import LLM
from specguide.config import EngineConfig
from specguide.engine import Engine

pytestmark = [
    pytest.mark.gpu2,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices"),
]
DEVICE = "cuda"


def config_of(name: str) -> EngineConfig:
    return EngineConfig(
        spec=SPECS[name], guide=PATIENT, max_model_len=256, dtype="float32", device=DEVICE
    )


def tell_tokens(name: str, **ranks: object) -> None:
    """Tell the tokens of a process whose ranks are in part on another host."""
    config = replace(config_of(name), **ranks)
    print(json.dumps(outputs(LLM.around(Engine(config)))))


@pytest.mark.parametrize("kind", ["tensor_parallel_size", "pipeline_parallel_size"])
@pytest.mark.parametrize("name", ["eagle3", "mtp"])
def test_two_hosts_give_the_tokens_of_one(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outputs(LLM.around(Engine(config_of(name))))
    monkeypatch.setenv(KEY, "a key of the tests")
    monkeypatch.setenv("SPECGUIDE_SHARED_MEMORY", "0")
    address = free_address()
    ranks = {kind: 2, "rank_address": address}
    with joining(address, CUDA_VISIBLE_DEVICES="1", NCCL_HOSTID="the other"):
        told = subprocess.run(
            [sys.executable, "-c", f"import {__name__} as it; it.tell_tokens({name!r}, **{ranks})"],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "CUDA_VISIBLE_DEVICES": "0",
                "NCCL_HOSTID": "this one",
            },
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=240,
        )
    assert [tuple(tokens) for tokens in json.loads(told.stdout)] == expected
