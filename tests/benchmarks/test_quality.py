"""What each quantization costs in quality."""

from __future__ import annotations

import pytest

from benchmarks.quality import FORMATS, LEAST_AGREEMENT, measure


@pytest.mark.parametrize("name", FORMATS)
def test_the_likeliest_token_stays_the_same(name: str) -> None:
    found = measure([name], 500)[name]
    assert found.num_tokens == 500
    assert found.agreement >= LEAST_AGREEMENT[name]
    assert 0 < found.kl < 0.05
