"""The MTP head as it is trained: published format, the engine's drafting against the unroll,
learning."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from paging import Sequences
from safetensors.torch import load_file
from training_examples import EOS, HIDDEN, some_examples
from transformers import LlamaForCausalLM

from specguide.models import Decoder
from specguide.models import MtpHead as EngineHead
from training.data.draft_data import PackPlan, answer_greedily, collate
from training.evaluate.acceptance import measure, tap
from training.heads.mtp import load_head, read_config, save_head
from training.heads.unroll import unroll
from training.train.head_trainer import Trainer
from training.train.mtp import new_head
from training.train.plan import TrainPlan

PLAN = TrainPlan(
    num_steps=300,
    num_rows=2,
    row_len=40,
    warmup_steps=4,
    unroll_steps=3,
    learning_rate=1e-2,
    prompt_rate=0.0,
)


def test_saved_head_has_the_published_format(target: LlamaForCausalLM, tmp_path: Path) -> None:
    save_head(new_head(target, PLAN), tmp_path)
    h, kv, inner = HIDDEN, 16, 48
    shapes = {
        name: (h,)
        for name in (
            "token_layernorm",
            "hidden_layernorm",
            "input_layernorm",
            "final_layernorm",
            "post_attention_layernorm",
        )
    }
    shapes |= {
        "input_proj": (h, 2 * h),
        "self_attn.q_proj": (h, h),
        "self_attn.k_proj": (kv, h),
        "self_attn.v_proj": (kv, h),
        "self_attn.o_proj": (h, h),
        "mlp.gate_proj": (inner, h),
        "mlp.up_proj": (inner, h),
        "mlp.down_proj": (h, inner),
    }
    expected = {f"model.mtp_layers.0.{name}.weight": shape for name, shape in shapes.items()}
    expected |= {
        f"model.mtp_layers.0.self_attn.{name}_proj.bias": (size,)
        for name, size in zip("qkv", (h, kv, kv), strict=True)
    }
    found = load_file(tmp_path / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in found.items()} == expected
    assert {tensor.dtype for tensor in found.values()} == {torch.bfloat16}
    config = json.loads((tmp_path / "config.json").read_text())
    assert (
        config["architectures"] == ["MiMoForCausalLM"] and config["num_nextn_predict_layers"] == 1
    )
    assert read_config(config) == new_head(target, PLAN).config


@torch.no_grad()
def test_engine_drafts_what_training_unrolled(target: LlamaForCausalLM, tmp_path: Path) -> None:
    target.save_pretrained(tmp_path / "target")
    save_head(new_head(target, PLAN), tmp_path / "head")
    decoder = Decoder.load(tmp_path / "target")
    engine = EngineHead.load(tmp_path / "head", decoder)
    output = target.get_output_embeddings().weight
    head = load_head(tmp_path / "head", output)
    example = some_examples(1, seed=8)[0]
    batch = collate(
        [[example]], PackPlan(len(example.ids), 1, prompt_rate=1.0), np.random.default_rng(0)
    )
    aux, _ = tap(target, batch, head.config.aux_layers)
    unrolled = unroll(head, aux, target.get_input_embeddings().weight, batch, 4)
    ids = batch.input_ids[0]
    for place, anchor in enumerate(batch.anchors[0, : int(batch.anchor_mask.sum())].tolist()):
        sequences = Sequences(1, len(ids) + 4)
        caches = [sequences.cache(model.config) for model in (decoder, engine)]
        context = sequences.extend([anchor + 1])
        _, features = decoder.forward(ids[: anchor + 1], context, caches[0], engine.aux_layers)
        features, normed = engine.forward(
            ids[1 : anchor + 2], engine.fuse(features), context, caches[1]
        )
        for step in range(min(4, len(ids) - 1 - anchor)):
            torch.testing.assert_close(
                engine.draft_logits(normed[-1]), unrolled[step][0, place], atol=2e-4, rtol=1e-4
            )
            token = ids[anchor + 2 + step : anchor + 3 + step]
            if len(token):
                features, normed = engine.forward(
                    token, features[-1:], sequences.extend([1]), caches[1]
                )


def test_head_overfits_resumes_and_is_measured(target: LlamaForCausalLM, tmp_path: Path) -> None:
    examples = answer_greedily(target, some_examples(4, seed=3), [EOS], 10)
    before = measure(new_head(target, PLAN), target, examples, 3, PLAN.row_len)
    trainer = Trainer(new_head(target, PLAN), target, PLAN, tmp_path)
    trainer.train(examples, until=0.0)
    assert trainer.step == 0
    second = Trainer(new_head(target, PLAN), target, PLAN, tmp_path)
    second.resume()
    second.train(examples)
    assert second.step == PLAN.num_steps
    after = measure(second.head, target, examples, 3, PLAN.row_len)
    assert after.acceptance_length > max(2.8, before.acceptance_length)
    assert after.match_by_depth[0] > 0.95
    other = Trainer(new_head(target, PLAN), target, TrainPlan(), tmp_path)
    with pytest.raises(ValueError, match="other settings"):
        other.resume()
