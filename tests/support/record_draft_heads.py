"""Makes `tests/models/recorded_draft_heads.json`: draft logits of the code that publishes heads.

    PYTHONPATH=tests/support:EAGLE python tests/support/record_draft_heads.py

with `pip install speculators==0.9.0 specforge==0.2.0`, and EAGLE a clone of SafeAILab/EAGLE at
cb7e084. Only the folders' configurations, the shapes of their tensors and the logits are kept.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from recorded_heads import (
    DRAFT_VOCAB_SIZE,
    HIDDEN,
    LENGTH,
    MASK_TOKEN,
    NUM_STEPS,
    RECORD,
    VOCAB_SIZE,
    inputs,
    weights,
)
from safetensors import safe_open
from torch import Tensor, nn

SHAPE = dict(
    hidden_size=HIDDEN,
    intermediate_size=20,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    vocab_size=VOCAB_SIZE,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_theta=5000.0,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
NUM_IDS = LENGTH + NUM_STEPS - 1


def padded() -> tuple[Tensor, Tensor]:
    """The inputs of training code, which reads all steps of all positions; those behind LENGTH do
    not reach the logits that are kept."""
    ids, aux = inputs()
    return ids[None], torch.cat((aux, torch.zeros(NUM_IDS - LENGTH, aux.shape[1])))[None]


def saved(model: nn.Module) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """What `save_pretrained` writes."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text())
        with safe_open(Path(folder) / "model.safetensors", "pt") as stored:
            return config, {
                name: list(stored.get_slice(name).get_shape())
                for name in stored.keys()  # noqa: SIM118
            }


def filled(model: nn.Module) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """As `saved`, of a model whose tensors then are `weights`."""
    config, shapes = saved(model)
    model.load_state_dict(weights(shapes), strict=False)
    return config, shapes


def kept_logits(head: nn.Module, run: Callable[[], Any]) -> list[Tensor]:
    """What `head`, the output matrix, gives while something runs."""
    found: list[Tensor] = []
    hook = head.register_forward_hook(lambda module, args, output: found.append(output[0]))
    with torch.no_grad():
        run()
    hook.remove()
    return found


def speculators_eagle3(layer_type: str, layer: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A head of `speculators`, over its own training pass."""
    from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
    from transformers import AutoConfig

    layer_config = AutoConfig.for_model(layer_type, **SHAPE, **layer)
    layer_config._attn_implementation = "eager"
    config = Eagle3SpeculatorConfig(
        transformer_layer_config=layer_config, draft_vocab_size=DRAFT_VOCAB_SIZE, **options
    )
    config.speculators_config = speculators_config("eagle3")
    model = Eagle3DraftModel(config).eval()
    written, shapes = filled(model)
    ids, aux = padded()
    run = lambda: model(aux, ids, torch.zeros_like(ids), ttt_steps=NUM_STEPS)  # noqa: E731
    logits = [step[LENGTH - 1].tolist() for step in kept_logits(model.lm_head, run)]
    return {"config": written, "shapes": shapes, "logits": logits}


def speculators_peagle(layer_type: str, layer: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A P-EAGLE head of `speculators`, over its own training pass with all depths of all
    positions."""
    from speculators.models.peagle import PEagleDraftModel, PEagleSpeculatorConfig, core
    from transformers import AutoConfig

    layer_config = AutoConfig.for_model(layer_type, **SHAPE, **layer)
    layer_config._attn_implementation = "eager"
    config = PEagleSpeculatorConfig(
        transformer_layer_config=layer_config,
        draft_vocab_size=DRAFT_VOCAB_SIZE,
        mask_token_id=MASK_TOKEN,
        **options,
    )
    config.speculators_config = speculators_config("peagle")
    model = PEagleDraftModel(config).eval()
    written, shapes = filled(model)
    ids, aux = padded()
    depths = torch.cat([torch.full((NUM_IDS - depth,), depth) for depth in range(NUM_STEPS)])
    anchors = torch.cat([torch.arange(NUM_IDS - depth) for depth in range(NUM_STEPS)])
    core.generate_cod_sample_indices = lambda **options: (anchors, depths)
    core.compute_metrics = lambda **options: (None, {})
    run = lambda: model(  # noqa: E731
        aux, ids, torch.zeros_like(ids), verifier_last_hidden_states=torch.zeros(1, NUM_IDS, HIDDEN)
    )
    (logits,) = kept_logits(model.lm_head, run)
    return {
        "config": written,
        "shapes": shapes,
        "logits": logits[anchors == LENGTH - 1].tolist(),
    }


def speculators_config(algorithm: str) -> Any:
    """Where the head comes from, which is part of its config.json."""
    from speculators.config import SpeculatorsConfig, VerifierConfig
    from speculators.proposals.greedy import GreedyTokenProposalConfig

    return SpeculatorsConfig(
        algorithm=algorithm,
        proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=NUM_STEPS)],
        default_proposal_method="greedy",
        verifier=VerifierConfig(name_or_path="a/target", architectures=["LlamaForCausalLM"]),
    )


def specforge_eagle3(**options: Any) -> dict[str, Any]:
    """A head of SpecForge, step by step as its training unrolls them."""
    from specforge.modeling.draft.llama3_eagle import LlamaForCausalLMEagle3
    from transformers import LlamaConfig

    config = LlamaConfig(**SHAPE, num_hidden_layers=1, draft_vocab_size=DRAFT_VOCAB_SIZE, **options)
    model = LlamaForCausalLMEagle3(config).eval()
    written, shapes = filled(model)
    ids, aux = padded()
    mask = torch.full((1, 1, NUM_IDS, NUM_IDS), torch.finfo(torch.float32).min).triu(1)
    cached: list[list[Tensor]] = [[], []]
    logits = []
    with torch.no_grad():
        hidden = model.project_hidden_states(aux)
        for step in range(NUM_STEPS):
            hidden = model.backbone(
                model.embed_input_ids(ids.roll(-step)),
                hidden,
                cached,
                mask,
                torch.arange(NUM_IDS)[None],
            )
            logits.append(model.compute_logits(hidden)[0, LENGTH - 1].tolist())
    return {"config": written, "shapes": shapes, "logits": logits}


def safeailab_eagle3() -> dict[str, Any]:
    """A head of the authors of EAGLE-3, drafting with a cache."""
    from eagle.model.cnets import Model

    config = dict(SHAPE, num_hidden_layers=1, draft_vocab_size=DRAFT_VOCAB_SIZE, hidden_act="silu")
    del config["head_dim"]  # which it does not read
    more = dict(rope_scaling=None, pretraining_tp=1)
    model = Model(SimpleNamespace(**config, **more), bias=False).eval()
    model.init_tree()
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    shapes = {name: shape for name, shape in shapes.items() if "rotary" not in name}
    model.load_state_dict(weights(shapes), strict=False)
    ids, aux = inputs()
    logits = []
    past = None
    hidden = aux[None]
    tokens = ids[None, :LENGTH]
    with torch.no_grad():
        for step in range(NUM_STEPS):
            out, past = model(hidden, input_ids=tokens, past_key_values=past, use_cache=True)
            hidden = out[:, -1:]
            logits.append(model.lm_head(model.norm(hidden))[0, 0].tolist())
            tokens = ids[None, LENGTH + step : LENGTH + step + 1]
    written = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **config}
    return {"config": written, "shapes": shapes, "logits": logits}


def main() -> None:
    """Write the record."""
    eagle31 = dict(fc_norm=True, norm_output=True, norm_before_residual=True)
    window = dict(sliding_window=4, use_sliding_window=True, max_window_layers=0)
    layers = dict(
        num_hidden_layers=2, layer_types=["full_attention", "sliding_attention"], **window
    )
    one, two = dict(num_hidden_layers=1), dict(num_hidden_layers=2)
    ids = dict(eagle_aux_hidden_state_layer_ids=[1, 3, 5])
    cases = {
        "EAGLE": safeailab_eagle3(),
        "SpecForge": specforge_eagle3(),
        "SpecForge, fc_norm": specforge_eagle3(fc_norm=True, target_hidden_size=HIDDEN),
        "speculators, Llama": speculators_eagle3("llama", one, **ids),
        "speculators, two layers with biases": speculators_eagle3(
            "llama", dict(two, attention_bias=True, mlp_bias=True), norm_before_residual=True
        ),
        "speculators, Qwen3": speculators_eagle3("qwen3", two, norm_before_residual=True, **ids),
        "speculators, norm_before_fc": speculators_eagle3(
            "llama", one, norm_before_fc=True, norm_output=True
        ),
        "speculators, EAGLE-3.1": speculators_eagle3("qwen3", one, **eagle31),
        "speculators, windows": speculators_eagle3("qwen3", layers),
        "speculators, P-EAGLE": speculators_peagle("llama", two, **ids),
        "speculators, P-EAGLE with Qwen3": speculators_peagle("qwen3", two, fc_norm=True),
    }
    for name, case in cases.items():
        maker = name.split(",")[0]
        case["version"] = {"EAGLE": "cb7e084", "SpecForge": "0.2.0"}.get(maker, "0.9.0")
        case["logits"] = [[round(value, 6) for value in step] for step in case["logits"]]
    cases["speculators, windows"]["logits"] = cases["speculators, windows"]["logits"][:1]
    RECORD.write_text(json.dumps(cases, indent=1))


if __name__ == "__main__":
    main()
