"""Owns Decoder, which all families share: embeddings, a family's layers, norm and output matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor

from specguide.cache import KVCache, SlotStates
from specguide.inputs.json_fields import naming
from specguide.kernels import LogitsShare, StateShape
from specguide.kernels.attention import OutputRows, PassContext
from specguide.kernels.compile_ahead import is_rehearsing
from specguide.layers.alikeness import needed_to_rehearse
from specguide.layers.attention import AttentionState
from specguide.layers.cache_scales import have_scales
from specguide.layers.decoder_layer import LayerState
from specguide.layers.destination import Destination, merged
from specguide.layers.linear_attention import LinearAttention, LinearState
from specguide.layers.lm_head import Embedding, LmHead
from specguide.layers.lora import NO_LORA, Lora
from specguide.layers.norm import NoNorm, RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.quantization import scale_name, with_plain_routers
from specguide.models.adapters import check_adapters, is_of_adapter, load_adapters, read_lora
from specguide.models.aux_states import AuxStates
from specguide.models.config import ModelConfig
from specguide.models.encoders import ImageVectors
from specguide.models.layer_inputs import LayerInputs
from specguide.models.left_aside import is_left_aside
from specguide.models.multimodal import text_name
from specguide.models.registry import FAMILIES, read_config
from specguide.models.rope_tables import RopeTables, check_positions
from specguide.models.weights import (
    check_tied,
    check_weights,
    load_weights,
    stored_names,
    weight_files,
)
from specguide.parallel import ONE_RANK, ONE_STAGE, Ranks, Stage


class Decoder:
    """A decoder-only transformer over a paged KV cache.

    config:        the configuration it was built from
    embedding, lm_head, rope_tables: what a draft head may share
    device, dtype: of its weights and hidden states
    ranks:         the ranks among which its layers are cut
    stage:         which of the layers it has
    max_positions: longest sequence that it serves, tokens
    images:        vectors of images in prompts; None: it reads text only

    `forward` allocates only activations, reads nothing back to the host and does not branch on
    data, so a CUDA graph can capture it.
    """

    images: ImageVectors | None = None

    def __init__(
        self,
        config: ModelConfig,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        max_positions: int | None = None,
        ranks: Ranks = ONE_RANK,
        stage: Stage = ONE_STAGE,
        lora: Lora = NO_LORA,
    ) -> None:
        """Uninitialised weights; `load` reads a checkpoint.

        max_positions: longest sequence, tokens; None: config.max_position_embeddings. Raises
                       InvalidParams if it is longer than that.
        ranks, stage:  the ranks among which its layers are cut, and which layers it has
        lora:          the adapters that requests may choose
        """
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        self.max_positions = max_positions or config.max_position_embeddings
        check_positions(config, self.max_positions, dtype)
        self.ranks, self.stage = ranks, stage
        self._lora = lora
        place = Placement(self.device, dtype, config.quantization, ranks=ranks, lora=lora)
        inner = place.within("model")
        self.embedding = Embedding.create(
            inner,
            config.vocab_size,
            config.hidden_size,
            is_tied=config.tie_word_embeddings,
            scale=config.embedding_scale,
        )
        self.lm_head = self._lm_head(place)
        self._layer_inputs = LayerInputs.create(inner, config, stage)
        family = FAMILIES[config.architecture]
        self.layers = tuple(
            family.build_layer(config, index, inner.within(f"layers.{index}"))
            for index in stage.layers(config.num_layers)
        )
        last_norm = replace(config.norm, weight_factor=config.logits_scale)
        self.norm = RmsNorm.create(inner, "norm", config.hidden_size, last_norm)
        dims = map(config.rotary_dim_of, stage.layers(config.num_layers))
        self._ropes = tuple(
            None if layer.attention.rope is None else (layer.attention.rope, dim)
            for layer, dim in zip(self.layers, dims, strict=True)
        )
        kinds = [rope for rope in self._ropes if rope is not None]
        self.rope_tables = RopeTables(kinds, self.max_positions, self.device, dtype)

    def _lm_head(self, place: Placement) -> LmHead:
        if self.config.tie_word_embeddings:
            return LmHead.tied(self.embedding, place.ranks, self.config.logits_limit)
        sizes = self.config.vocab_size, self.config.hidden_size
        return LmHead.create(place, *sizes, self.config.logits_limit)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        *,
        max_positions: int | None = None,
        quantization: str | None = None,
        ranks: Ranks = ONE_RANK,
        stage: Stage = ONE_STAGE,
        adapters: Sequence[Path] = (),
    ) -> Decoder:
        """Load from a Hugging Face folder: config.json and safetensors, one file or shards with
        their index. Or from a GGUF file, whose weights are dequantized.

        quantization: one of ONLINE: how the weights are quantized, tensor by tensor, while they are
                      read; None: they are not
        ranks, stage: see the constructor
        adapters:     folders of LoRA adapters, as PEFT saves them
        Raises CheckpointError that names the file and what is wrong with it, and InvalidParams for
        an unknown quantization, or one that the folder does not allow.
        """
        folder = Path(folder)
        config = read_config(folder, quantization)
        files = weight_files(folder)
        quantized = with_plain_routers(
            config.quantization, lambda: map(text_name, stored_names(files))
        )
        config = replace(config, quantization=quantized)
        build = partial(cls, config, lora=read_lora(adapters))
        skeleton = build(device="meta", max_positions=1)
        destinations = skeleton.destinations()

        def rename(name: str) -> str:
            return scale_name(text_name(name), destinations)

        ignored = partial(is_left_aside, config)
        check_weights(files, destinations, ignored=ignored, rename=rename)
        check_adapters(adapters, skeleton.adapter_destinations(), ignored=ignored)
        decoder = build(
            device=device, dtype=dtype, max_positions=max_positions, ranks=ranks, stage=stage
        )
        load_weights(files, decoder.destinations(), rename=rename)
        load_adapters(adapters, decoder.adapter_destinations())
        decoder._end_loading(folder, files)
        return decoder

    def _end_loading(self, folder: Path, files: tuple[Path, ...]) -> None:
        """Check what only the stored numbers tell, and make what is derived from them."""
        if self.config.tie_word_embeddings:
            check_tied(files, self.embedding, rename=text_name)
        with naming(folder):
            self.has_cache_scales()  # raises if only some layers have scales
        for layer in self.layers:
            layer.attention.prepare()

    @classmethod
    def skeleton(cls, config: ModelConfig) -> Decoder:
        """Shapes without memory, on the meta device; files are checked against them before memory
        is allocated."""
        return cls(config, device="meta", max_positions=1)

    def forward(
        self,
        input_ids: Tensor,
        context: PassContext,
        cache: KVCache,
        aux_layers: tuple[int, ...] = (),
        outputs: OutputRows | None = None,
    ) -> tuple[Tensor, Tensor]:
        """One pass over T tokens; stores their keys and values in `cache` (layer i in
        cache.keys[i]).

        input_ids:  int64 [T]
        aux_layers: layers whose input is wanted, 0 … num_layers, that is, the residual stream
                    before layer i, which is the output of layer i - 1 (num_layers: of the last
                    layer, before the final norm). EAGLE-3 and its heads call this a layer's hidden
                    state.
        outputs:    the W tokens whose hidden states are returned; None: all, W = T
        Returns hidden [W, hidden_size] after the final norm, and the aux layers' inputs side by
        side [T, len(aux_layers) · hidden_size].
        """
        hidden = self.embedding.forward(input_ids)
        if self.images is not None:
            hidden = self.images.placed(hidden, context.image_rows)
        given = self._layer_inputs
        inputs = None if given is None else given.forward(input_ids, hidden)
        aux = AuxStates(aux_layers, {0: hidden})
        # Adapters know which rows are theirs only where a pass has all of its rows.
        is_cut = self.config.num_layers not in aux_layers and self._lora is NO_LORA
        early = outputs if is_cut else None
        hidden, normed = self.run_layers(hidden, context, cache, self.norm, aux, early, inputs)
        if outputs is not None and early is None:
            normed = normed[outputs.index]
        return normed, aux.beside(hidden, self.config.stream_scale)

    def run_layers(
        self,
        hidden: Tensor,
        context: PassContext,
        cache: KVCache,
        last_norm: RmsNorm | NoNorm,
        aux: AuxStates,
        outputs: OutputRows | None = None,
        inputs: Sequence[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The residual stream [T, hidden_size] behind this stage's layers, and its `last_norm`.

        aux:     collects the aux layers' inputs found here
        outputs: the tokens whose stream is returned; for the others the last layer only computes
                 keys and values; None: all
        inputs:  of each layer beside the stream, see LayerInputs
        """
        self._lora.begin(context.adapter_ids)
        normed = self.layers[0].input_norm(hidden)
        next_norms = (*(layer.input_norm for layer in self.layers[1:]), last_norm)
        first = self.stage.layers(self.config.num_layers).start
        runs = self._rehearsed if is_rehearsing() else [True] * len(self.layers)
        states = self._layer_states(context, cache)
        num_deep = 0 if self.images is None else self.images.num_deep
        for index, (layer, next_norm, state, is_run) in enumerate(
            zip(self.layers, next_norms, states, runs, strict=True), first + 1
        ):
            if layer is self.layers[-1]:
                state = state._replace(outputs=outputs)
            if inputs is not None and isinstance(state, AttentionState):
                state = state._replace(layer_input=inputs[index - 1])
            if is_run:
                hidden, normed = layer(hidden, normed, next_norm, state)
            if index <= num_deep and self.images is not None and context.image_rows is not None:
                hidden = self.images.deepened(hidden, context.image_rows, index - 1)
                normed = next_norm(hidden)
            if index in aux.layers:
                aux.found[index] = hidden
        return hidden, normed

    def _layer_states(self, context: PassContext, cache: KVCache) -> Iterator[LayerState]:
        """What the attention of each layer reads and writes."""
        positions = context.rotary_positions if self.images is not None else None
        rotary = self.rope_tables.at(context.position_ids, positions)
        keys = zip(cache.keys, cache.values, strict=True)
        linear = iter(()) if cache.states is None else cache.states.run(context.parts)
        for rope in self._ropes:
            if rope is None:
                yield LinearState(*next(linear))
            else:
                angles, scales = rotary[rope]
                yield AttentionState(context, angles, *next(keys), scales)

    def new_states(self, num_rows: int, num_open: int) -> SlotStates | None:
        """Memory for what its layers remember of slots, see SlotStates; None: nothing."""
        shape = self.state_shape()
        if shape is None:
            return None
        return SlotStates.allocate(shape, num_rows, num_open, self.dtype, self.device)

    def state_shape(self) -> StateShape | None:
        """What the layers of this stage remember of each slot on this rank; None: nothing."""
        linear = [it for layer in self.layers if isinstance(it := layer.attention, LinearAttention)]
        return linear[0].shape.state(len(linear)) if linear else None

    @cached_property
    def _rehearsed(self) -> Sequence[bool]:
        """Whether each layer runs where kernels are only compiled: of layers that are alike, a few
        have all kernels compiled."""
        return needed_to_rehearse(self.layers)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [n, hidden_size] as `forward` returns it → [n, vocab_size], in the model's
        dtype."""
        return self.lm_head.forward(hidden)

    def logits_share(self, hidden: Tensor) -> Tensor | LogitsShare:
        """The `logits`, or only those of this rank's tokens if ranks can choose a token
        together."""
        return self.lm_head.forward_share(hidden)

    def has_cache_scales(self) -> bool:
        """Whether its checkpoint has scales for a float8 KV cache; otherwise they are 1. Raises
        CheckpointError if it has only some of them."""
        stored = [layer.attention.cache_scales for layer in self.layers]
        return have_scales([scales for scales in stored if scales is not None])

    def fit_vocabulary(self, size: int) -> None:
        """Serve beside a model with the same tokens whose vocabulary is padded to `size` ids.

        From now on it accepts every id below `size`, and treats ids that it lacks like its last
        one; it returns no logits for ids from `size` on.
        """
        self.lm_head.fit_vocabulary(size)
        self.embedding.fit_vocabulary(size)
        if self._layer_inputs is not None:
            self._layer_inputs.table.fit_vocabulary(size)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its Hugging Face name."""
        return {name: it for name, it in self._destinations() if not is_of_adapter(name)}

    def adapter_destinations(self) -> dict[str, Destination]:
        """Where each tensor of its adapters goes, by the name that `adapter_name` gives it."""
        return {name: it for name, it in self._destinations() if is_of_adapter(name)}

    def _destinations(self) -> Iterable[tuple[str, Destination]]:
        parts = self.embedding, self._layer_inputs, self.norm, self.lm_head
        return merged(*parts, *self.layers).items()
