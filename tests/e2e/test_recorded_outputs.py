"""Outputs are token for token what they were."""

from __future__ import annotations

import json

import pytest
from recorded_outputs import MODES, RECORDED, WITHOUT_GUIDES, outputs_of


@pytest.mark.parametrize("mode", MODES)
def test_outputs_are_what_they_were(mode):
    recorded = json.loads(RECORDED.read_text())[mode]
    assert outputs_of(mode) == recorded


@pytest.mark.parametrize("mode", WITHOUT_GUIDES)
def test_free_outputs_of_an_engine_without_guides(mode):
    recorded = json.loads(RECORDED.read_text())[mode]
    outputs = outputs_of(mode, has_guides=False)
    for output, expected in zip(outputs, recorded, strict=False):
        for name in ("tokens", "finish", "error", "accepted"):
            assert output[name] == expected[name], name


def test_modes_agree_on_greedy_requests():
    """What is drafted, and by whom, changes no output."""
    recorded = json.loads(RECORDED.read_text())
    for mode in MODES:
        assert [it["tokens"] for it in recorded[mode]] == [
            it["tokens"] for it in recorded["plain"]
        ], mode
