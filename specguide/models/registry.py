"""Owns FAMILIES, the families by the names of their architectures, and how a folder's config.json
is matched to one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError, InvalidParams
from specguide.inputs.gguf_file import find_gguf
from specguide.inputs.json_fields import mapping, naming, read_json, shown, token_ids
from specguide.layers.quantization import ONLINE, ONLINE_HEADS, UNQUANTIZED
from specguide.models.config import ModelConfig
from specguide.models.config_fields import check_fields
from specguide.models.deepseek import DEEPSEEK2, DEEPSEEK3, GLM4_MOE_LITE
from specguide.models.family import Family
from specguide.models.gemma2 import GEMMA2
from specguide.models.gemma3 import GEMMA3
from specguide.models.gemma4 import GEMMA4, GEMMA4_UNIFIED
from specguide.models.gguf import gguf_fields
from specguide.models.glm4 import GLM, GLM4
from specguide.models.glm4_moe import GLM4_MOE
from specguide.models.gpt_oss import GPT_OSS
from specguide.models.granite import GRANITE, GRANITE_HYBRID
from specguide.models.llama import LLAMA
from specguide.models.minimax_m2 import MINIMAX_M2
from specguide.models.ministral import MINISTRAL, MINISTRAL3
from specguide.models.mistral import MISTRAL
from specguide.models.mixtral import MIXTRAL
from specguide.models.multimodal import MULTIMODAL, is_multimodal, text_fields
from specguide.models.olmo import OLMO2, OLMO3
from specguide.models.olmoe import OLMOE
from specguide.models.phi3 import PHI3
from specguide.models.qwen2 import QWEN2
from specguide.models.qwen3 import QWEN3
from specguide.models.qwen3_5 import QWEN3_5, QWEN3_5_MOE, QWEN3_NEXT
from specguide.models.qwen3_moe import QWEN3_MOE
from specguide.models.smollm3 import SMOLLM3

_MULTIMODAL = "ForConditionalGeneration"

_FAMILIES: tuple[Family[Any], ...] = (
    LLAMA,
    MISTRAL,
    MIXTRAL,
    QWEN2,
    QWEN3,
    QWEN3_MOE,
    QWEN3_NEXT,
    QWEN3_5,
    QWEN3_5_MOE,
    GEMMA2,
    GEMMA3,
    GEMMA4,
    GEMMA4_UNIFIED,
    GPT_OSS,
    PHI3,
    GLM,
    GLM4,
    GLM4_MOE,
    GLM4_MOE_LITE,
    DEEPSEEK2,
    DEEPSEEK3,
    GRANITE,
    GRANITE_HYBRID,
    OLMO2,
    OLMO3,
    OLMOE,
    SMOLLM3,
    MINISTRAL,
    MINISTRAL3,
    MINIMAX_M2,
)

FAMILIES: dict[str, Family[Any]] = {
    architecture: family for family in _FAMILIES for architecture in family.architectures
}


def read_config(
    folder: str | Path, quantization: str | None = None, *, strict: bool = False
) -> ModelConfig:
    """Read the configuration from config.json and, if there is one, generation_config.json; or from
    a GGUF file.

    quantization: one of ONLINE if the weights will be quantized while they are read
    strict:       see `config_of`
    Raises CheckpointError if they are unreadable or ask for what is not implemented, and
    InvalidParams for an unknown quantization or one that the folder does not allow; the message
    says what.
    """
    if (gguf := find_gguf(Path(folder))) is not None:
        with naming(gguf):
            config = config_of(gguf_fields(gguf))
        return quantized(config, quantization)
    path = Path(folder) / "config.json"
    generation_path = Path(folder) / "generation_config.json"
    fields = _with_modelopt(_renamed(read_json(path)), Path(folder))
    generation = read_json(generation_path) if generation_path.exists() else {}
    has_the_word = generation.get("eos_token_id") is not None
    with naming(path):
        has_encoders = is_multimodal(fields)
        fields = text_fields(Path(folder), fields) if has_encoders else fields
        stated = {**fields, "eos_token_id": None} if has_the_word else fields
        config = config_of(stated, strict=strict)
        config = replace(config, has_encoders=has_encoders)
    with naming(generation_path):
        eos = token_ids(generation, "eos_token_id", config.vocab_size)
    config = quantized(config, quantization)
    return config if eos is None else replace(config, eos_token_ids=eos)


def _renamed(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields under their present names; the first checkpoints of compressed-tensors have other
    names."""
    if fields.get("quantization_config") is not None or not fields.get("compression_config"):
        return fields
    others = {name: value for name, value in fields.items() if name != "compression_config"}
    return {**others, "quantization_config": fields["compression_config"]}


def _with_modelopt(fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The fields, with those of ModelOpt's own file if config.json says nothing of quantization."""
    path = folder / "hf_quant_config.json"
    if fields.get("quantization_config") is not None or not path.exists():
        return fields
    with naming(path):
        stated = mapping(read_json(path), "quantization")
        return {**fields, "quantization_config": {**stated, "quant_method": "modelopt"}}


def quantized(
    config: ModelConfig, quantization: str | None, *, is_head: bool = False
) -> ModelConfig:
    """The configuration of a model whose weights are quantized while they are read, see
    `read_config`. is_head: whether it is a draft head. Raises InvalidParams."""
    if quantization is None:
        return config
    if quantization not in ONLINE:
        raise InvalidParams(
            f"quantization {quantization!r} is unknown; known: {', '.join(ONLINE)}; leave it out "
            "for a checkpoint that is quantized already: config.json names its format",
            param="quantization",
        )
    if config.quantization != UNQUANTIZED:
        raise InvalidParams(
            "the model is quantized already, according to its config.json: leave quantization out",
            param="quantization",
        )
    return replace(config, quantization=(ONLINE_HEADS if is_head else ONLINE)[quantization])


def config_of(
    fields: Mapping[str, Any], *, known: Collection[str] = (), strict: bool = False
) -> ModelConfig:
    """Read the configuration from the contents of config.json. Raises CheckpointError.

    known:  fields that the caller reads itself
    strict: raise for unknown fields instead of warning
    """
    architecture = _architecture(fields)
    family = FAMILIES[architecture]
    check_fields(fields, known={*family.fields, *known}, neutral=family.neutral, strict=strict)
    config: ModelConfig = family.read({**fields, "architectures": [architecture]})
    return config


def _architecture(fields: Mapping[str, Any]) -> str:
    architectures = fields.get("architectures") or []
    if not isinstance(architectures, list) or not all(
        isinstance(name, str) for name in architectures
    ):
        raise CheckpointError(
            f"'architectures' must be a list of names, found {shown(architectures)}"
        )
    known = next((name for name in architectures if name in FAMILIES), None)
    if known is None:
        found = ", ".join(architectures) or "none given"
        if "eagle" in found.lower():
            raise CheckpointError(
                f"architecture {shown(found)} is a draft head's, and no model's: give its folder "
                "as --head beside its target, in Python SpecConfig('eagle3', model=…)"
            )
        raise CheckpointError(
            f"architecture {shown(found)} is unknown; known, with ForCausalLM behind each: "
            f"{_listed(FAMILIES, 'ForCausalLM')}; and with {_MULTIMODAL}: "
            f"{_listed(sorted(MULTIMODAL), _MULTIMODAL)}"
        )
    return known


def _listed(names: Iterable[str], ending: str) -> str:
    return ", ".join(name.removesuffix(ending) for name in names)
