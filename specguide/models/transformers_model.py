"""Owns TransformersDecoder: any decoder-only model of transformers, run over our paged KV cache
with our attention and our products."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from specguide.cache import KVCache
from specguide.errors import CheckpointError
from specguide.kernels.attention import OutputRows, PassContext
from specguide.layers.destination import Destination
from specguide.layers.lm_head import Embedding, LmHead
from specguide.layers.lora import NO_LORA, Lora
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import UNQUANTIZED
from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder
from specguide.models.rope_tables import RopeTables, check_positions
from specguide.models.transformers_config import (
    TransformersConfig,
    naming_model,
    skeleton_of,
    without_parameters,
)
from specguide.models.transformers_modules import GivenBody, Pages, ProjectionModule, materialise
from specguide.parallel import ONE_RANK, ONE_STAGE


class TransformersDecoder(Decoder):
    """A Decoder whose layers are modules of transformers; see Decoder.

    Each pass runs the modules' own code on a single sequence of all tokens: only the attention
    knows about sequences. Positions beyond the context are treated like the last one, since some
    models look positions up in a table.
    """

    config: TransformersConfig

    def __init__(
        self,
        config: ModelConfig,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        max_positions: int | None = None,
        lora: Lora = NO_LORA,
    ) -> None:
        """See Decoder."""
        assert isinstance(config, TransformersConfig)
        self._lora = lora
        self.config, self.ranks, self.stage = config, ONE_RANK, ONE_STAGE
        self.device = torch.device(device)
        self.dtype = dtype
        self.max_positions = max_positions or config.max_position_embeddings
        check_positions(config, self.max_positions, dtype)
        self.rope_tables = RopeTables((), self.max_positions, self.device, dtype)
        with naming_model(config.architecture):
            named = config.stated, config.architecture
            self._model = (
                skeleton_of(*named, self.max_positions)
                if self.device.type == "meta"
                else without_parameters(*named, dtype, self.max_positions)
            )
            self._projections: dict[str, Projection] = {}
            self._place()
            self._share_ends()
        self._pages = Pages(config.layers)
        for module in self._model.modules():
            module.paged = self._pages
        self._note_layers()
        self._given = GivenBody()
        self._head = copy.copy(self._model)
        self._head._modules = dict(self._model._modules)
        self._head._modules[self._model.base_model_prefix] = self._given
        self._num_logits = config.vocab_size

    def _place(self) -> None:
        """Replace linear modules by projections, and allocate memory for everything else."""
        model = self._model
        head, tied = model.get_output_embeddings(), self._tied()
        plain = Placement(self.device, self.dtype, self.config.quantization)
        for name, module in list(model.named_modules()):
            if type(module) is nn.Linear and name not in tied:
                place = plain if module is head else replace(plain, lora=self._lora)
                parent, _, leaf = name.rpartition(".")
                inner = place.within(parent) if parent else place
                projection = Projection.create(
                    inner,
                    module.in_features,
                    {leaf: module.out_features},
                    bias=module.bias is not None,
                )
                self._projections[name] = projection
                model.set_submodule(name, ProjectionModule(projection))
        if self.config.quantization != UNQUANTIZED and len(self._projections) < len(
            self.config.layers
        ):
            raise CheckpointError(
                "its linear layers are no nn.Linear modules, so it cannot be quantized: use an "
                "unquantized checkpoint, and leave quantization out"
            )
        materialise(model, self.device, self.dtype)

    def _tied(self) -> set[str]:
        """Names of the linear modules that share the embeddings' matrix."""
        head = self._model.get_output_embeddings()
        embedding = self._model.get_input_embeddings()
        if head is None or head.weight is not embedding.weight:
            return set()
        return {name for name, module in self._model.named_modules() if module is head}

    def _share_ends(self) -> None:
        """Set `embedding` and `lm_head`, which draft heads read."""
        inner = self._model.get_input_embeddings()
        names = {id(it): name for name, it in self._model.named_modules()}
        self.embedding = Embedding(inner.weight.data, f"{names[id(inner)]}.weight")
        outer = self._model.get_output_embeddings()
        if isinstance(outer, ProjectionModule):
            name = names[id(outer)]
            self.lm_head = LmHead(self._projections[name].maps[name], name)
        else:
            self.lm_head = LmHead.tied(self.embedding)

    def _note_layers(self) -> None:
        """Have each layer record its input if that is wanted."""
        layers = next(
            module
            for module in self._model.base_model.modules()
            if isinstance(module, nn.ModuleList) and len(module) == self.config.num_layers
        )
        aux = self._pages.aux

        def note_input(index: int) -> Any:
            def hook(module: nn.Module, args: tuple[Any, ...], others: dict[str, Any]) -> None:
                if index in aux:
                    aux[index] = (args[0] if args else others["hidden_states"])[0]

            return hook

        def note_output(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if len(layers) in aux:
                aux[len(layers)] = (output if isinstance(output, Tensor) else output[0])[0]

        for index, layer in enumerate(layers):
            layer.register_forward_pre_hook(note_input(index), with_kwargs=True)
        layers[-1].register_forward_hook(note_output)

    def forward(
        self,
        input_ids: Tensor,
        context: PassContext,
        cache: KVCache,
        aux_layers: tuple[int, ...] = (),
        outputs: OutputRows | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See Decoder.forward."""
        pages = self._pages
        pages.begin(context, cache, self.dtype)
        self._lora.begin(context.adapter_ids)
        pages.aux.clear()
        pages.aux.update(dict.fromkeys(aux_layers))
        positions = context.position_ids.clamp(max=self.config.max_position_embeddings - 1)
        hidden = self._model.base_model(
            input_ids=input_ids[None], position_ids=positions[None], use_cache=False
        )[0][0]
        wanted = hidden if outputs is None else hidden[outputs.index]
        if not aux_layers:
            return wanted, hidden[:, :0]
        return wanted, torch.cat([self._noted(layer) for layer in aux_layers], dim=-1)

    def _noted(self, layer: int) -> Tensor:
        """The input that a layer recorded in this pass. Raises CheckpointError if it recorded
        none."""
        state = self._pages.aux[layer]
        if state is None:
            raise CheckpointError(
                f"{self.config.architecture} gives no hidden states before layer {layer}, which "
                "the draft head reads: the model did not run that layer as a module. Use a head "
                f"that reads layers 0 to {self.config.num_layers}, or run without a head"
            )
        return state

    def logits(self, hidden: Tensor) -> Tensor:
        """See Decoder.logits. They are computed by the model's own code behind its body."""
        self._given.hidden = hidden
        logits: Tensor = self._head(input_ids=None, use_cache=False).logits[0]
        return logits[:, : self._num_logits].to(hidden.dtype)

    def check_head(self) -> None:
        """Compute logits once. Raises CheckpointError if the model's own code asks its body for
        more than hidden states."""
        hidden = self.embedding.weight[:1].clone()  # hidden states are as wide as embeddings
        try:
            self.logits(hidden)
        except Exception as error:  # foreign code may raise anything
            with naming_model(self.config.architecture):
                raise CheckpointError(
                    "its logits cannot be computed from hidden states alone: "
                    f"{type(error).__name__}: {error}"
                ) from None

    def has_cache_scales(self) -> bool:
        """False: such a model never has scales of the cache."""
        return False

    def fit_vocabulary(self, size: int) -> None:
        """See Decoder.fit_vocabulary."""
        self._num_logits = size
        self.embedding.fit_vocabulary(size)
        self.lm_head.fit_vocabulary(size)
        inner = self._model.get_input_embeddings()
        inner.weight = nn.Parameter(self.embedding.weight, requires_grad=False)

    def is_left_aside(self, name: str) -> bool:
        """Whether a tensor may be in a checkpoint, although the model does not use it."""
        patterns = self._model._keys_to_ignore_on_load_unexpected or ()
        tied = {f"{head}.weight" for head in self._tied_names()}
        return (
            name in tied
            or name.endswith(("rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"))
            or any(re.search(pattern, name) for pattern in patterns)
        )

    def _destinations(self) -> Iterator[tuple[str, Destination]]:
        for projection in self._projections.values():
            yield from projection.destinations().items()
        tied = {f"{name}.weight" for name in self._tied_names()}
        for name, tensor in self._model.state_dict().items():
            if name not in tied:
                yield name, Destination.of(tensor)

    def _tied_names(self) -> set[str]:
        outer = self._model.get_output_embeddings()
        if outer is None or isinstance(outer, ProjectionModule):
            return set()
        return {name for name, module in self._model.named_modules() if module is outer}
