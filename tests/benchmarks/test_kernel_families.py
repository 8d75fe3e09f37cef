"""Where an iteration's time goes, by kernels that overlap."""

import pytest

from benchmarks.gpu.kernel_families import family_of, shares


def _kernel(name: str, begin_us: float, end_us: float, grid: tuple[int, ...] = ()) -> dict:
    return {"name": name, "ts": begin_us, "dur": end_us - begin_us, "args": {"grid": list(grid)}}


@pytest.mark.parametrize(
    ("name", "grid", "family"),
    [
        ("attention_kernel", (8, 64, 1), "decode attention"),
        ("attention_kernel", (8, 256, 1), "prompt attention"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", (1,), "products"),
        ("_linear_kernel", (1,), "products"),
        ("_scan_kernel", (1,), "linear attention"),
        ("add_rms_norm_kernel", (1,), "norms"),
        ("Memcpy DtoD", (), "copies"),
        ("something", (), "other"),
    ],
)
def test_kernels_are_told_by_name_and_attention_by_its_programs(name, grid, family):
    assert family_of(name, grid, 64) == family


def test_kernels_that_overlap_share_the_time_and_gaps_are_idle():
    kernels = [
        _kernel("nvjet", 0, 10),
        _kernel("rms_norm", 4, 12),  # began early and waited
        _kernel("silu", 5, 8),  # beside
        _kernel("nvjet", 15, 20),
    ]
    spent = shares(kernels, 64)
    assert spent == {"products": 15.0, "norms": 2.0, "activation": 0.0, "idle": 3.0}
