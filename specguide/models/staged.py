"""Owns StagedDecoder, a decoder whose layers are divided among the stages of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.kernels.attention import OutputRows, PassContext
from specguide.kernels.attention.micro_batches import micro_batches
from specguide.layers.norm import NoNorm
from specguide.models.aux_states import AuxStates
from specguide.models.decoder import Decoder
from specguide.parallel import Pending, wait_all


@dataclass(frozen=True)
class _Carried:
    """The message from stage to stage: the residual stream, and the aux layers' inputs so far.

    layers: these aux layers, in ascending order
    """

    layers: tuple[int, ...]

    @classmethod
    def behind(cls, layer: int, aux_layers: tuple[int, ...]) -> _Carried:
        """The message after the first `layer` layers have run."""
        return cls(tuple(sorted({one for one in aux_layers if one <= layer})))

    def pack(self, hidden: Tensor, aux: AuxStates) -> Tensor:
        """The message, [1 + len(layers), T, hidden_size]: the stream, then the aux layers'
        inputs."""
        return torch.stack([hidden, *(aux.found[layer] for layer in self.layers)])

    def unpack(self, message: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
        """The stream of a message, and its aux layers' inputs by layer."""
        return message[0], dict(zip(self.layers, message[1:].unbind(), strict=True))


class StagedDecoder(Decoder):
    """A `Decoder` with only the layers of its stage; every stage has embeddings, last norm and
    output matrix.

    The tokens of a pass are cut into micro-batches by sequence, so that consecutive stages work on
    different micro-batches at the same time. The last stage's result goes to all stages, each of
    which then verifies, accepts and drafts in the same way. Lengths are read back to the host, so
    no CUDA graph can capture it.
    """

    def forward(
        self,
        input_ids: Tensor,
        context: PassContext,
        cache: KVCache,
        aux_layers: tuple[int, ...] = (),
        outputs: OutputRows | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See Decoder. Raises CollectiveFailed if another stage does not take part."""
        results: list[Tensor] = []
        sent: list[Pending] = []
        for part, tokens in micro_batches(context, self.stage.num_micro_batches):
            hidden, aux = self._enter(input_ids[tokens], aux_layers)
            if self.stage.is_last:
                results.append(self._finish(hidden, part, cache, aux))
            else:
                sent.append(self._pass_on(hidden, part, cache, aux))
        width = (1 + len(aux_layers)) * self.config.hidden_size
        whole = torch.cat(results) if results else self._empty(len(input_ids), width)
        self.stage.from_last(whole)
        wait_all(sent)
        normed, states = whole.split([self.config.hidden_size, width - self.config.hidden_size], 1)
        wanted = normed if outputs is None else normed[outputs.index]
        return wanted.contiguous(), states.contiguous()

    def _enter(self, input_ids: Tensor, aux_layers: tuple[int, ...]) -> tuple[Tensor, AuxStates]:
        """The residual stream before this stage's layers, and the aux layers' inputs that are known
        by then."""
        if self.stage.is_first:
            hidden = self.embedding.forward(input_ids)
            return hidden, AuxStates(aux_layers, {0: hidden})
        carried = _Carried.behind(self._layers.start, aux_layers)
        shape = 1 + len(carried.layers), len(input_ids), self.config.hidden_size
        hidden, found = carried.unpack(self.stage.receive(self._empty(*shape)))
        return hidden, AuxStates(aux_layers, found)

    def _pass_on(
        self, hidden: Tensor, context: PassContext, cache: KVCache, aux: AuxStates
    ) -> Pending:
        """Run this stage's layers and send their results on. The next stage computes the norm of
        the stream itself."""
        hidden, _ = self.run_layers(hidden, context, cache, NoNorm(), aux)
        carried = _Carried.behind(self._layers.stop, aux.layers)
        return self.stage.send(carried.pack(hidden, aux))

    def _finish(
        self, hidden: Tensor, context: PassContext, cache: KVCache, aux: AuxStates
    ) -> Tensor:
        """The results of `forward`, side by side."""
        hidden, normed = self.run_layers(hidden, context, cache, self.norm, aux)
        return torch.cat([normed, aux.beside(hidden, self.config.stream_scale)], 1)

    @property
    def _layers(self) -> range:
        return self.stage.layers(self.config.num_layers)

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)
