"""Llama-3.1-8B and drafters for it with random weights, on which speed is measured; and the bytes
that bound it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from specguide.config.resolved import ResolvedConfig
from specguide.layers.linear_attention import LinearAttention
from specguide.layers.lora import NO_LORA, Lora
from specguide.models import Decoder, Eagle3Head, MtpHead, config_of
from specguide.models.eagle3 import held_in
from specguide.models.eagle3_config import Eagle3Config
from specguide.models.eagle3_parts import Eagle3Parts
from specguide.parallel import ONE_RANK, ONE_STAGE, Ranks, Stage
from specguide.speculation.drafters import keys_of

LLAMA_8B: dict[str, Any] = dict(
    architectures=["LlamaForCausalLM"],
    hidden_size=4096,
    intermediate_size=14336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=128_256,
    rms_norm_eps=1e-5,
    rope_theta=500_000.0,
    max_position_embeddings=131_072,
    tie_word_embeddings=False,
    rope_scaling=dict(
        rope_type="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    ),
)
LLAMA_70B = LLAMA_8B | dict(
    hidden_size=8192,
    intermediate_size=28672,
    num_hidden_layers=80,
    num_attention_heads=64,
)
LLAMA_1B = LLAMA_8B | dict(
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    head_dim=64,
    tie_word_embeddings=True,
    rope_scaling=LLAMA_8B["rope_scaling"] | dict(factor=32.0),
)
TINY = LLAMA_8B | dict(
    hidden_size=128,
    intermediate_size=128,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
)
DRAFT_VOCAB_SIZE = 32_000

_ROWS = {
    "targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
}
QUANTIZED: dict[str, dict[str, Any]] = {
    "fp8": {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": _ROWS},
        "ignore": ["lm_head"],
    },
    "fp8 static": {"quant_method": "fp8", "activation_scheme": "static"},
    "fp8 blocks": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "int4": {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True},
    "int4 with zeros": {"quant_method": "awq", "bits": 4, "group_size": 128},
}
"""Formats of published checkpoints of such a model, by the contents of their
`quantization_config`."""


@dataclass(frozen=True)
class Shapes:
    """The contents of config.json of a target, of a head for it and of a small model beside it.

    draft_quantization: what an EAGLE-3 head is rounded to as it is read; None: it is as `head` says
    """

    target: dict[str, Any]
    head: dict[str, Any]
    small: dict[str, Any]
    draft_quantization: str | None = None

    def held_in(self, form: str | None) -> Shapes:
        """With the target's weights in a format of QUANTIZED; None: as they are. An MTP head has
        the same format. Published EAGLE-3 heads are bfloat16: one is rounded to the target's number
        of bits as it is read."""
        if form is None:
            return self
        held = {"quantization_config": QUANTIZED[form]}
        target, head = self.target | held, self.head | held
        of_head = "int4" if form.startswith("int4") else "fp8"
        return replace(self, target=target, head=head, draft_quantization=of_head)


SHAPES_8B = Shapes(LLAMA_8B, LLAMA_8B, LLAMA_1B)
SHAPES_70B = Shapes(LLAMA_70B, LLAMA_70B, LLAMA_8B)
TINY_SHAPES = Shapes(TINY, TINY, TINY | dict(num_hidden_layers=2))


DraftModel = Eagle3Head | MtpHead | Decoder


@dataclass(frozen=True, eq=False)
class RandomModels:
    """A target, and drafters for it by their method; "draft_model" is a small model, the others are
    heads."""

    target: Decoder
    drafters: Mapping[str, DraftModel]

    @classmethod
    def of(
        cls,
        methods: Iterable[str],
        device: torch.device,
        dtype: torch.dtype,
        max_len: int,
        shapes: Shapes = SHAPES_8B,
        ranks: Ranks = ONE_RANK,
        stage: Stage = ONE_STAGE,
        lora: Lora = NO_LORA,
    ) -> RandomModels:
        """Models of the shapes of Llama-3.1-8B, with Llama-3.2-1B for the small model, or of other
        `shapes`, for contexts of up to `max_len` tokens; the part of them that one of `ranks`
        has."""
        torch.manual_seed(0)
        head = shapes.head
        small = shapes.small
        target_config = config_of(shapes.target)
        of_target: dict[str, Any] = {"device": device, "dtype": dtype, "max_positions": max_len}
        target = _random(Decoder(target_config, **of_target, ranks=ranks, stage=stage, lora=lora))
        for attention in (layer.attention for layer in target.layers):
            attention.prepare()
            if isinstance(attention, LinearAttention):
                attention.rates.uniform_(-1.0, -0.01)
        for destination in target.adapter_destinations().values():
            destination.tensor.normal_(std=0.02)
        makers: dict[str, Callable[[], DraftModel]] = {
            "eagle3": lambda: _eagle3(head, target, shapes.draft_quantization),
            "mtp": lambda: _random(MtpHead(config_of(head), target)),
            "draft_model": lambda: _random(
                Decoder(config_of(small), device=device, dtype=dtype, max_positions=max_len)
            ),
        }
        return cls(target, {method: makers[method]() for method in dict.fromkeys(methods)})

    def num_bytes_read(self, method: str, num_drafts: int, expert_share: float) -> float:
        """Bytes of weights that an iteration must read, the drafter's once for each draft.

        expert_share: share of the target's experts that are used
        """
        total = _num_bytes(self.target, expert_share)
        if num_drafts:
            drafter = self.drafters[method]
            once = drafter.fusion.fc.num_bytes if isinstance(drafter, Eagle3Head) else 0
            total += once + num_drafts * (_num_bytes(drafter) - once)
        return total

    def num_cache_bytes_read(self, method: str, num_drafts: int, num_cached: float) -> float:
        """Bytes of keys and values that an iteration must read, the drafter's once for each draft,
        if they have the target's dtype.

        num_cached: tokens of all requests in the cache
        """
        each = _kv_bytes(self.target)
        if num_drafts:
            each += num_drafts * _kv_bytes(self.drafters[method])
        return each * num_cached


@dataclass(frozen=True)
class RandomParts:
    """Makes a rank's part of random models, in any process; see `RankBuild.load`."""

    methods: tuple[str, ...]
    max_len: int
    shapes: Shapes

    def __call__(
        self, config: ResolvedConfig, ranks: Ranks, stage: Stage
    ) -> tuple[Decoder, DraftModel | None]:
        """Target and the configuration's drafter, if it has one."""
        device, dtype = torch.device(config.device), getattr(torch, config.dtype)
        models = self.on(device, dtype, ranks, stage)
        return models.target, models.drafters.get(config.spec.method if config.spec else "")

    def on(
        self, device: torch.device, dtype: torch.dtype, ranks: Ranks, stage: Stage = ONE_STAGE
    ) -> RandomModels:
        """All models on a device."""
        return RandomModels.of(self.methods, device, dtype, self.max_len, self.shapes, ranks, stage)


def _eagle3(config: dict[str, Any], target: Decoder, quantization: str | None) -> Eagle3Head:
    fields = config | dict(draft_vocab_size=DRAFT_VOCAB_SIZE)
    if quantization is not None:
        fields |= dict(quantization_config=None)
    own = Eagle3Config.from_hf(fields)
    head = _random(Eagle3Head(held_in(own, quantization), target, Eagle3Parts()))
    head.target_ids = (
        torch.randperm(128_000)[:DRAFT_VOCAB_SIZE].sort().values.to(target.device, torch.int32)
    )
    return head


def _random(model: Any) -> Any:
    for destination in model.destinations().values():
        tensor = destination.tensor
        if destination.stored_dtype is torch.bfloat16:  # rounded as it is read, with its scales
            stored = torch.empty(destination.shape, dtype=torch.bfloat16, device=tensor.device)
            destination.fill(stored.normal_(std=0.02))
        elif not tensor.is_floating_point():
            tensor.random_(*((0, 16) if tensor.dtype == torch.uint8 else ()))
        elif tensor.ndim == 1:
            tensor.fill_(1)
        else:
            tensor.copy_(torch.empty_like(tensor, dtype=model.dtype).normal_(std=0.02))
    return model


def _num_bytes(model: DraftModel, expert_share: float = 1.0) -> float:
    """Bytes of the weights that a pass over few tokens reads: it takes some rows of the embeddings,
    and the experts in use."""
    weights = sum(
        d.tensor.nbytes * (expert_share if ".experts." in name else 1)
        for name, d in model.destinations().items()
        if "embed_tokens" not in name and name != "lm_head.weight"
    )
    return weights + model.lm_head.num_bytes


def _kv_bytes(model: DraftModel) -> int:
    """Bytes of keys and values of one token, on one rank."""
    return keys_of(model).num_numbers * model.dtype.itemsize
