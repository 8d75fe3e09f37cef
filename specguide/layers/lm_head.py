"""Owns Embedding and LmHead: token ids to hidden states, and hidden states to logits."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels import LogitsShare, limit_softly
from specguide.kernels.shares import NUM_WORDS
from specguide.layers.destination import Destination
from specguide.layers.norm import RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.quantization import UNQUANTIZED, PlainWeights, ProjectionWeights
from specguide.layers.sharding import shards
from specguide.parallel import ONE_RANK, Ranks

_LM_HEAD = "lm_head"


class Embedding:
    """A vector for each token id.

    weight: [vocab_size, hidden_size]
    name:   the tensor's name in the checkpoint
    scale:  factor on the vectors at the beginning of a pass, as in Gemma
    """

    def __init__(self, weight: Tensor, name: str, scale: float = 1.0) -> None:
        self.weight = weight
        self.name = name
        self.scale = torch.tensor(scale, dtype=weight.dtype).item()

    @classmethod
    def create(
        cls,
        place: Placement,
        vocab_size: int,
        hidden_size: int,
        *,
        is_tied: bool,
        scale: float = 1.0,
    ) -> Embedding:
        """Embeddings with uninitialised weights, embed_tokens.weight in the checkpoint.

        is_tied: an LmHead may use the matrix too. It then has the memory order that suits the
                 product; looking rows up costs little in either order
        """
        name = f"{place.prefix}embed_tokens.weight"
        if not is_tied:
            return cls(place.empty(vocab_size, hidden_size), name, scale)
        spec = place.matrix(vocab_size, hidden_size, ("embed_tokens",))
        return cls(UNQUANTIZED.create_weights(spec).weight, name, scale)

    def forward(self, token_ids: Tensor) -> Tensor:
        """token_ids, int [T] → their vectors [T, hidden_size], times `scale`."""
        vectors = F.embedding(token_ids, self.weight)
        return vectors if self.scale == 1.0 else vectors * self.scale

    def norm_into(self, output: Tensor, norm: RmsNorm, token_ids: Tensor) -> None:
        """Write the norm of the vectors, without `scale`, to output [T, hidden_size]; draft heads
        read it."""
        norm.into(output, self.weight, token_ids)

    def fit_vocabulary(self, size: int) -> None:
        """Accept every id below `size` from now on; an id that the matrix lacks reads its last
        row."""
        num_missing = size - len(self.weight)
        if num_missing > 0:
            self.weight = torch.cat((self.weight, self.weight[-1:].expand(num_missing, -1)))

    def destinations(self) -> dict[str, Destination]:
        """Where the tensor of a checkpoint goes, by its full name."""
        return {self.name: Destination.of(self.weight)}


class LmHead:
    """The output matrix: from hidden states to a logit for each token of a vocabulary.

    weights: [vocab_size, hidden_size]
    name:    the map's name in the checkpoint; None if it is the embeddings' matrix
    ranks:   each rank has the logits of equally many tokens, in the order of ranks
    stored:  where the checkpoint's tensors go if this rank keeps a part of them; None: to `weights`
    limit:   logits x become c · tanh(x / c) with this limit c; None: no limit

    If ranks cannot divide the vocabulary, each of them has the whole matrix.
    """

    def __init__(
        self,
        weights: ProjectionWeights,
        name: str | None,
        ranks: Ranks = ONE_RANK,
        stored: dict[str, Destination] | None = None,
        limit: float | None = None,
    ) -> None:
        self.weights = weights
        self.name = name
        self.ranks = ranks
        self.limit = limit
        self._stored = stored

    @classmethod
    def create(
        cls, place: Placement, vocab_size: int, hidden_size: int, limit: float | None = None
    ) -> LmHead:
        """A matrix with uninitialised weights, lm_head.weight in the checkpoint."""
        ranks = place.ranks
        if ranks.size > 1 and vocab_size % ranks.size == 0:
            part = cls.create(replace(place, ranks=ONE_RANK), vocab_size // ranks.size, hidden_size)
            whole = cls.create(place.whole(), vocab_size, hidden_size)
            stored = shards(whole.destinations(), part.destinations(), ranks)
            return cls(part.weights, part.name, ranks, stored, limit)
        spec = place.matrix(vocab_size, hidden_size, (_LM_HEAD,))
        return cls(place.weights(spec), spec.names[0], limit=limit)

    @classmethod
    def tied(
        cls, embedding: Embedding, ranks: Ranks = ONE_RANK, limit: float | None = None
    ) -> LmHead:
        """A head that uses the matrix of the embeddings, without their scale."""
        weights = PlainWeights(embedding.weight)
        vocab_size = len(embedding.weight)
        if ranks.size == 1 or vocab_size % ranks.size:
            return cls(weights, None, limit=limit)
        share = vocab_size // ranks.size
        own = weights.rows(ranks.rank * share, (ranks.rank + 1) * share)
        return cls(own, None, ranks, limit=limit)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden [T, hidden_size] → logits [T, vocab_size], in the dtype of `hidden`."""
        return self._gathered(self._product(hidden))

    def _product(self, hidden: Tensor) -> Tensor:
        product = self.weights.product(hidden)
        return product if self.limit is None else limit_softly(product, self.limit)

    def _gathered(self, logits: Tensor) -> Tensor:
        if self.ranks.size == 1:
            return logits
        return self.ranks.collectives.gather(logits).transpose(0, 1).flatten(1)

    def forward_share(self, hidden: Tensor) -> Tensor | LogitsShare:
        """The logits as `forward` returns them, or only those of this rank's tokens if the ranks
        can choose tokens together."""
        ranks = self.ranks
        peers = ranks.collectives.peers(len(hidden), NUM_WORDS, torch.float32)
        if peers is None:
            return self.forward(hidden)
        logits = self._product(hidden)
        first = ranks.rank * logits.shape[1]
        if logits.shape[1] % 32:  # ranks would share a bitmask word
            return self._gathered(logits)
        return LogitsShare(logits, first, peers)

    def fit_vocabulary(self, size: int) -> None:
        """Return no logits for ids from `size` on."""
        self.weights = self.weights.rows(0, size)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name; empty for a tied matrix."""
        if self.name is None:
            return {}
        if self._stored is not None:
            return self._stored
        return {f"{self.name}.{tensor}": it for tensor, it in self.weights.destinations().items()}

    @property
    def num_bytes(self) -> int:
        """Memory of the matrix, bytes."""
        return sum(it.tensor.nbytes for it in self.weights.destinations().values())
