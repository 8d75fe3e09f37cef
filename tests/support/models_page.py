"""Makes docs/models.md from what the tests run over: families, formats and heads.

python -m pytest tests/models/test_models_page.py    checks that the page is up to date
PYTHONPATH=. python tests/support/models_page.py     writes it
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import float8_checkpoints
import int4_checkpoints
from engine_families import FAMILIES as IN_ENGINE
from foreign_models import REFUSED, RUN
from multimodal_models import MULTIMODAL as TEXT_TESTED
from random_models import CASES, QUANTIZED
from recorded_heads import load_record
from vision_folders import VISION_FAMILIES

from specguide.bench.tables import line
from specguide.models import FAMILIES
from specguide.models.gguf import FAMILIES as GGUF
from specguide.models.multimodal import MULTIMODAL

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
TESTED, PLANNED = "tested", "planned"
_EXPERTS = {
    "GptOssForCausalLM": ("refused, mxfp4 tested", "refused"),
    "Gemma4ForCausalLM": (TESTED, "tested, experts planned"),
    "Glm4MoeForCausalLM": (TESTED, TESTED),
    "Glm4MoeLiteForCausalLM": (TESTED, TESTED),
    "DeepseekV2ForCausalLM": (TESTED, TESTED),
    "DeepseekV3ForCausalLM": (TESTED, TESTED),
    "MiniMaxM2ForCausalLM": (TESTED, TESTED),
    "MixtralForCausalLM": (TESTED, TESTED),
    "OlmoeForCausalLM": (TESTED, TESTED),
    "Qwen3MoeForCausalLM": (TESTED, TESTED),
    "Qwen3NextForCausalLM": (TESTED, TESTED),
    "Qwen3_5MoeForCausalLM": (TESTED, TESTED),
}
"""What families of experts read in fp8 and 4 bits, see test_expert_checkpoints.py and
test_int4_formats.py."""

_BEGIN = """\
# Models

Which architectures, weights and draft heads are read, and what a test says of each. Made from what
the tests run over (`tests/support/models_page.py`); a test sees to it that the page is up to date.

- *tested*: on small random checkpoints whose configuration has the fields of published ones, the
  logits are transformers' to 1e-4 in float32: long prompts, chunks, windows, trees. Quantized
  weights are compared with the numbers that they stand for.
- *refused*: by name, before memory is taken.
- *planned*: it may load, and no test says that it is right.
- Heads: *tested*, where head and family ran together in the engine and changed no token; *states*,
  where the hidden states that a head reads are tested, and the two together are planned.

## Families
"""
_LATENT = """\

Latent attention (DeepSeek-V2 and V3, Kimi-K2, Moonlight, GLM-4.7-Flash) stores one key of 576
numbers a token, which all heads share and each rank has. `kv_b_proj` is absorbed into the queries
and the outputs, in the model's dtype, whatever its format in the checkpoint. `--kv-cache-dtype fp8`
is refused, and so are LoRA adapters of `kv_b_proj`. DeepSeek-V3.2's sparse attention is refused.

Linear attention (Qwen3.5, Qwen3-Next) keeps one matrix a head for each request, however long its
context; [how drafts are verified with it](iteration.md#linear-attention). A matrix stands for all
tokens before it, so prompts with the same beginning share it only where it was saved: at the end of
a prompt of 512 tokens or more, and where a prompt leaves another one that came before. `--role` and
such a model as the small draft model are refused. Experts may be stored one by one or stacked.
"""
_GEMMA = """\
Gemma 4: layers that see all tokens have key heads of another number and size than those with a
window, and the KV cache has memory for each kind. In E2B and E4B a layer may read the keys of an
earlier one, and gets inputs of its own from the embeddings: `--pipeline-parallel-size`, and
`--kv-cache-dtype fp8` with scales of the checkpoint, are refused. Its drafters (`Gemma4Assistant`)
are refused.
"""
_FOREIGN = """\
## Other architectures

Any other decoder-only architecture of transformers runs through that library's own modules, with
the attention, the products and the cache of this one: `--model-impl transformers`, or by itself,
with a warning, where no family has the architecture. Hidden states for heads are tested for each.
`--quantization fp8` and `int4`, and adapters, work where its linear maps are `nn.Linear`.
"""
_REFUSED = """\
What cannot run that way is refused, with what is missing: mixtures of experts, linear attention and
state spaces, encoders, code of the folder's own (remote code).
"""
_TEXT = """\
## Models that read images

Where *images* are tested, [prompts may have images](serving.md#images): answers about them are
transformers' in float32, token for token. The encoder runs by transformers' modules. Of the other
folders, and of those without `preprocessor_config.json`, the text model is loaded alone, with a
warning, and a request with an image is refused; so it is with several stages, with `--role`, and
with quantized encoders. Video and sound are refused. Other architectures with encoders are refused
by name.
"""
_HEADS = """\
## Draft heads

The draft logits of each layout are those that the code recorded that publishes such heads
(`tests/support/record_draft_heads.py`). A field that nobody knows is refused, wherever it stands.
"""
_OTHER_HEADS = """\
- **MTP** as MiMo has it (`model.mtp_layers`), in DeepSeek's style (`enorm`, `hnorm`, `eh_proj`) and
  in Qwen3-Next's (`mtp.fc`), one module, dense or with experts (GLM-4.5, DeepSeek-V3): tested
  against transformers' own layer, in the order of vLLM's code. A target loads without such layers
  too.
- **EAGLE** 1 and 2, **Medusa**, **Hydra**, **DFlash**, MLP speculators: refused.
- **n-gram**, **suffix**, **grammar** and a **small model** need no head: tested.
- Shipped: an EAGLE-3 and an MTP head for the model that comes along, and an EAGLE-3 head for
  SmolLM2-135M-Instruct, `--head specguide/assets/smollm2_eagle3` ([what it gains](acceptance.md)).
"""
_FORMATS = """\
## Weights

Tested on a Llama, each against the numbers that its weights stand for; one of fp8 and one of 4 bits
on every dense family above. See [quantization](quantization.md).
"""


def page() -> str:
    """The whole page."""
    kinds = ", ".join(f"`{name}`" for name in GGUF)
    parts = [
        _BEGIN,
        *_table(("architecture", "settings tested", "fp8", "4 bits", "GGUF", "EAGLE-3", "MTP")),
        *(line(cells) for cells in _families()),
        _LATENT,
        _GEMMA,
        _FOREIGN,
        f"Tested: {_listed(f'{name}ForCausalLM' for name in RUN)}.\n",
        _REFUSED,
        *_table(("refused", "because")),
        *(line((f"`{name}ForCausalLM`", _words(why))) for name, (_, why) in REFUSED.items()),
        f"\n{_TEXT}",
        *_table(("architecture", "text", "images")),
        *(
            line((f"`{name}`", _of(TEXT_TESTED, name), _of(VISION_FAMILIES, name, "refused")))
            for name in sorted(MULTIMODAL)
        ),
        f"\n{_HEADS}",
        *_table(("layout", "recorded from")),
        *(line((name, made["version"])) for name, made in load_record().items()),
        f"\n{_OTHER_HEADS}",
        _FORMATS,
        f"- fp8: {', '.join(float8_checkpoints.FORMATS)}",
        f"- 4 bits: {', '.join(int4_checkpoints.FORMATS)}",
        "- mxfp4: the experts of gpt-oss",
        f"- GGUF: architectures {kinds}, dequantized; others are refused",
        "- `bitsandbytes`, NVFP4, other bits: refused",
        "- [LoRA adapters](serving.md#adapters) as PEFT saves them, of the linear layers of "
        "attention and of dense feed-forward layers; DoRA, and adapters of experts, embeddings, "
        "output matrix or biases are refused",
    ]
    return "\n".join(parts) + "\n"


def _families() -> Iterator[Sequence[str]]:
    cases = defaultdict[str, list[str]](list)
    for name, ((_, model_class), _settings) in CASES.items():
        cases[model_class.__name__].append(name)
    in_engine = {model_class.__name__ for _, model_class, _ in IN_ENGINE.values()}
    in_engine.add("LlamaForCausalLM")
    quantized = {CASES[name][0][1].__name__ for name in QUANTIZED}
    in_gguf = {family.architecture for family in GGUF.values()}
    for architecture, family in FAMILIES.items():
        first = family.architectures[0]
        float8, int4 = _EXPERTS.get(first, [TESTED if first in quantized else PLANNED] * 2)
        yield (
            f"`{architecture}`",
            ", ".join(cases[first]) if architecture == first else f"as `{first}`",
            float8,
            int4,
            TESTED if first in in_gguf else "refused",
            TESTED if first in in_engine else "states",
            TESTED if first in in_engine else PLANNED,
        )


def _of(tested: Collection[str], architecture: str, otherwise: str = PLANNED) -> str:
    name = architecture.removesuffix("ForConditionalGeneration")
    return TESTED if name in tested else otherwise


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _words(message: str) -> str:
    return message.replace("\\", "")


def _table(names: Sequence[str]) -> Iterator[str]:
    yield line(names)
    yield "|" + "---|" * len(names)


if __name__ == "__main__":
    PAGE.write_text(page())
