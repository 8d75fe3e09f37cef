"""Owns how a GGUF file is read like any other checkpoint: as the fields of a config.json, and as
tensors under their Hugging Face names, dequantized while they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.inputs.gguf_file import GgufHeader, library, read_header
from specguide.inputs.json_fields import naming, shown

_FIELDS = {
    "context_length": "max_position_embeddings",
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
}
_HEAD_SIZES = ("attention.key_length", "attention.value_length", "rope.dimension_count")
_SCALINGS = ("none", "linear", "yarn")
_OF_SCALING = {
    "rope.scaling.factor": "factor",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
}
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "rope.scaling.attn_factor": (1.0,),
    "rope.scaling.finetuned": (False, True),
    "attention.causal": (True,),
    "expert_count": (0,),
    "expert_used_count": (0,),
}
_OTHERWISE_READ = {"vocab_size", "rope.scaling.type", *_HEAD_SIZES, *_FIELDS, *_OF_SCALING}
_ROPE_FACTORS = "rope_freqs.weight"
"""Name of the tensor with a divisor for each pair's frequency: llama.cpp's form of the rope of
Llama 3.1 and later."""


@dataclass(frozen=True)
class GgufFamily:
    """How GGUF stores a family.

    architecture: its name in config.json
    is_permuted:  rows of queries and keys are ordered as pairs that are rotated together
    """

    architecture: str
    is_permuted: bool = False


FAMILIES = {
    "llama": GgufFamily("LlamaForCausalLM", is_permuted=True),
    "qwen2": GgufFamily("Qwen2ForCausalLM"),
    "qwen3": GgufFamily("Qwen3ForCausalLM"),
}

_OF_MODEL = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_OF_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_MODEL_NAME = re.compile(r"(\w+)\.(weight|bias)")


def gguf_fields(path: Path) -> dict[str, Any]:
    """The fields that the file's config.json would have. Raises CheckpointError for an unsupported
    architecture, and for metadata that would change the arithmetic."""
    header = read_header(path)
    with naming(path):
        family = _family(header)
        stated = _of_architecture(header)
        head_sizes = {stated[name] for name in _HEAD_SIZES if name in stated}
        if len(head_sizes) > 1:
            raise CheckpointError(
                f"attention heads of several sizes are not supported: {shown(head_sizes)}"
            )
        fields = {_FIELDS[name]: value for name, value in stated.items() if name in _FIELDS}
        if head_sizes:
            fields["head_dim"] = head_sizes.pop()
        return {
            **fields,
            **_rope_scaling(path, header, stated),
            "architectures": [family.architecture],
            "vocab_size": header.vocab_size,
            "tie_word_embeddings": "output.weight" not in header.tensors,
            "attention_bias": "blk.0.attn_output.bias" in header.tensors,
            "eos_token_id": list(header.end_tokens) or None,
        }


def _family(header: GgufHeader) -> GgufFamily:
    if header.architecture not in FAMILIES:
        raise CheckpointError(
            f"GGUF architecture {shown(header.architecture)} is not supported; supported: "
            f"{', '.join(FAMILIES)}"
        )
    return FAMILIES[header.architecture]


def _of_architecture(header: GgufHeader) -> dict[str, Any]:
    """The metadata under the prefix of the architecture's name."""
    prefix = f"{header.architecture}."
    stated = {
        name.removeprefix(prefix): value
        for name, value in header.metadata.items()
        if name.startswith(prefix)
    }
    for name, value in stated.items():
        if name not in _OTHERWISE_READ and value not in _NEUTRAL.get(name, ()):
            raise CheckpointError(f"{shown(prefix + name)} {shown(value)} is not supported")
    return stated


def _rope_scaling(path: Path, header: GgufHeader, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The `rope_scaling` of config.json; empty if the rope is not scaled."""
    fields = {name: stated[key] for key, name in _OF_SCALING.items() if key in stated}
    kind = stated.get("rope.scaling.type", "linear" if "factor" in fields else "none")
    if kind not in _SCALINGS:
        raise CheckpointError(
            f"rope.scaling.type {shown(kind)} is not supported: only {', '.join(_SCALINGS)}"
        )
    if _ROPE_FACTORS in header.tensors:
        if kind != "none":
            raise CheckpointError(
                f"{_ROPE_FACTORS} together with rope.scaling.type is not supported"
            )
        return {"rope_scaling": _of_factors(path, header)}
    return {} if kind == "none" else {"rope_scaling": {"rope_type": kind, **fields}}


def _of_factors(path: Path, header: GgufHeader) -> dict[str, Any]:
    """A LongRoPE `rope_scaling` made from the factors in the file, which are the same for any
    number of served tokens."""
    stored = DequantizedTensor(path, header.tensors[_ROPE_FACTORS])
    memory = torch.empty(stored.shape)
    stored.read_into(memory)
    factors = memory.tolist()
    scaling = {"short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
    return {"rope_type": "longrope", **scaling}


def gguf_tensors(path: Path) -> dict[str, DequantizedTensor]:
    """The tensors by their Hugging Face names; a tensor without such a name keeps its own. The rope
    factors are left out: they are among the fields. Raises CheckpointError."""
    header = read_header(path)
    with naming(path):
        family = _family(header)
    num_heads = _num_heads(header) if family.is_permuted else {}
    return {
        hf_name(name): DequantizedTensor(path, tensor, num_heads.get(name.split(".")[-2]))
        for name, tensor in header.tensors.items()
        if name != _ROPE_FACTORS
    }


def _num_heads(header: GgufHeader) -> Mapping[str, int]:
    """Number of heads of queries and of keys whose rows are permuted."""
    stated = _of_architecture(header)
    num_heads = stated["attention.head_count"]
    return {"attn_q": num_heads, "attn_k": stated.get("attention.head_count_kv", num_heads)}


def hf_name(name: str) -> str:
    """Hugging Face's name of a GGUF tensor such as "blk.0.attn_q.weight"; the same name if there is
    none."""
    if (found := _LAYER_NAME.fullmatch(name)) and found[2] in _OF_LAYER:
        return f"model.layers.{found[1]}.{_OF_LAYER[found[2]]}.{found[3]}"
    if (found := _MODEL_NAME.fullmatch(name)) and found[1] in _OF_MODEL:
        return f"{_OF_MODEL[found[1]]}.{found[2]}"
    return name


@dataclass(frozen=True, eq=False)
class DequantizedTensor:
    """A StoredTensor of a GGUF file; its values are float32.

    stored:    a `gguf.ReaderTensor`
    num_heads: number of heads whose rows are stored as rotated pairs side by side; None: rows are
               not permuted
    """

    path: Path
    stored: Any
    num_heads: int | None = None
    dtype: str = "F32"
    torch_dtype: torch.dtype = torch.float32

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in reversed(self.stored.shape))

    @property
    def num_bytes(self) -> int:
        """Number of bytes in memory, which is more than in the file."""
        return 4 * int(self.stored.n_elements)

    def read_into(self, memory: Tensor) -> None:
        """See StoredTensor.read_into. Raises CheckpointError."""
        try:
            values = library().dequantize(self.stored.data, self.stored.tensor_type)
        except NotImplementedError as error:
            raise CheckpointError(f"{self.path}: {self.stored.name}: {error}") from None
        # Unquantized data is the mapped file itself, which is read-only; torch wants writable
        # memory.
        tensor = torch.from_numpy(np.require(values, requirements="W")).view(self.shape)
        memory.copy_(tensor if self.num_heads is None else _unpermuted(tensor, self.num_heads))


def _unpermuted(rows: Tensor, num_heads: int) -> Tensor:
    """The rows of each head, reordered from pairs (0, half), (1, half + 1), … to first half, second
    half, as Hugging Face's rotation wants them."""
    return rows.unflatten(0, (num_heads, -1, 2)).transpose(1, 2).reshape(rows.shape)
