"""Owns the choice of how many programs share the sum of one feature (split-K)."""

from __future__ import annotations

_MOST_SPLITS = 4
"""Maximum splits: whoever reads the parts has to add them up."""


def num_splits_of(num_programs: int, most_programs: int, num_steps: int) -> int:
    """A power of two that divides the number of steps of a sum and does not give too many programs.

    num_programs: their number without splits
    """
    num_splits = 1
    while (
        num_splits < _MOST_SPLITS
        and 2 * num_splits * num_programs <= most_programs
        and num_steps % (2 * num_splits) == 0
    ):
        num_splits *= 2
    return num_splits
