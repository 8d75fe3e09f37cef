"""Owns how the four numbers of a word are converted to floats on a GPU."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch

from specguide.kernels.int4 import PLANES

_AMPERE = (8, 0)


def _unpack_planes(magic: int, fma: str) -> tuple[str, ...]:
    """PTX for each plane that makes two floats, pattern · factor + offset, from two words, factors
    and offsets; see PlaneForm."""
    return tuple(
        "{ .reg .b32 t; "
        f"shr.u32 t, $1, {4 * plane // 8 * 8}; "
        f"lop3.b32 t, t, {0x000F000F << 4 * (plane % 2):#x}, {magic:#x}, 0xEA; "
        f"{fma} $0, t, $2, $3; }}"
        for plane in range(PLANES)
    )


class PlaneForm(NamedTuple):
    """How the numbers of the four planes become floats: pattern · factor = number · unit + base.

    The lowest bits of a float can hold a number in bits 0 … 3 or 4 … 7. So two planes need no
    shift, and the other two share one shift. bfloat16: the pattern alone is number · 2⁻¹³³ or
    number · 2⁻¹²⁹ (a subnormal float, or almost one); unit and factors leave room for any float16
    scale. float16: the pattern lies in the mantissa of 1024.
    """

    unit: float
    factors: tuple[float, ...]
    bases: tuple[float, ...]


UNPACK = {
    torch.bfloat16: _unpack_planes(0, "fma.rn.bf16x2"),
    torch.float16: _unpack_planes(0x64006400, "fma.rn.f16x2"),
}
FORMS = {
    torch.bfloat16: PlaneForm(2.0**-22, (2.0**111, 2.0**107) * 2, (0.0, 0.0) * 2),
    torch.float16: PlaneForm(1.0, (1.0, 1 / 16) * 2, (1024.0, 64.0) * 2),
}
_PLAIN_FORM = PlaneForm(1.0, (1.0,) * PLANES, (0.0,) * PLANES)


@cache
def unpacking(dtype: torch.dtype, device: torch.device) -> tuple[tuple[str, ...] | None, PlaneForm]:
    """PTX for each plane that converts it to floats, None if the GPU lacks the instructions, and
    the form of these floats."""
    can = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _AMPERE
    return (UNPACK[dtype], FORMS[dtype]) if can and dtype in UNPACK else (None, _PLAIN_FORM)
