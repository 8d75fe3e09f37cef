"""Outputs are token for token what they were."""

from __future__ import annotations

import pytest
from recorded_outputs import MODES, WITHOUT_GUIDES, outputs_of, recorded_of


@pytest.mark.parametrize("mode", MODES)
def test_outputs_are_what_they_were(mode):
    assert outputs_of(mode) == recorded_of(mode)


@pytest.mark.parametrize("mode", WITHOUT_GUIDES)
def test_free_outputs_of_an_engine_without_guides(mode):
    outputs = outputs_of(mode, has_guides=False)
    for output, expected in zip(outputs, recorded_of(mode), strict=False):
        for name in ("tokens", "finish", "error", "accepted"):
            assert output[name] == expected[name], name


def test_modes_agree_on_greedy_requests():
    """What is drafted, and by whom, changes no output."""
    plain = [output["tokens"] for output in recorded_of("plain")]
    for mode in MODES:
        assert [output["tokens"] for output in recorded_of(mode)] == plain, mode
