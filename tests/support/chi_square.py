"""The chi-square test of goodness of fit, for tests of what is drawn at random."""

from __future__ import annotations

import torch
from torch import Tensor


def chi_square_p(counts: Tensor, probabilities: Tensor) -> float:
    """Probability of a deviation at least this great, were the samples drawn from `probabilities`.

    counts, probabilities: [cells]. A cell of probability 0 must be empty. Cells that expect fewer
                           than 5 samples, too few for the test, are taken together.
    """
    assert counts.shape == probabilities.shape
    assert counts[probabilities == 0].sum() == 0, "drew what has no probability"
    expected = probabilities.double() / probabilities.double().sum() * counts.sum()
    rare = expected < 5
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    observed = torch.cat([counts[~rare], counts[rare].sum()[None]]).double()
    observed, expected = observed[expected > 0], expected[expected > 0]
    if len(expected) == 1:
        return 1.0
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(
        torch.special.gammaincc(
            torch.tensor((len(expected) - 1) / 2, dtype=torch.float64), statistic / 2
        )
    )
