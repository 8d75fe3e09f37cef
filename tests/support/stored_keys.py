"""A check of the keys that a draft head stores."""

from __future__ import annotations

import torch
from paging import Sequences

from specguide.kernels.attention import OutputRows
from specguide.models import Eagle3Head, MtpHead


@torch.inference_mode()
def check_keys(head: Eagle3Head | MtpHead) -> None:
    """Check that the keys are the same if only keys are stored, if the pass has some outputs, and
    if it has all."""
    generator = torch.Generator().manual_seed(3)
    vocab_size = head.embedding.weight.shape[0]
    ids = torch.randint(0, vocab_size, (12,), generator=generator)
    features = torch.randn(12, head.config.hidden_size, generator=generator)
    passes = [Sequences(2, 12) for _ in range(3)]
    caches = [each.cache(head.config) for each in passes]
    contexts = [each.extend([7, 5]) for each in passes]
    whole = head.forward(ids, features, contexts[0], caches[0])
    outputs = OutputRows.last_tokens(contexts[1], torch.tensor([6, 11]))
    some = head.forward(ids, features, contexts[1], caches[1], outputs)
    head.store(ids, features, contexts[2], caches[2])
    for one, other in zip(some, whole, strict=True):
        torch.testing.assert_close(one, other[[6, 11]], atol=2e-5, rtol=1e-5)
    for cache in caches[1:]:
        for one, other in zip(
            (*caches[0].keys, *caches[0].values), (*cache.keys, *cache.values), strict=True
        ):
            assert torch.equal(one, other)
