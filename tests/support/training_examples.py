"""Random examples for the training of heads."""

from __future__ import annotations

import numpy as np

from training.data.draft_data import Example

VOCAB, HIDDEN, EOS = 48, 32, 3


def some_examples(count: int, seed: int = 0) -> list[Example]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(6, 18, count)
    return [
        Example(rng.integers(4, VOCAB, n).astype(np.int32), int(rng.integers(1, n - 3)))
        for n in sizes
    ]
