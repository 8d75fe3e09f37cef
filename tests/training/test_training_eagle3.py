"""The EAGLE3 head as it is trained: published format, unroll against a drafting loop, packing,
acceptance, learning."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from random_models import CASES, random_model
from safetensors import safe_open
from training_examples import EOS, HIDDEN, VOCAB, some_examples
from transformers import LlamaForCausalLM

from specguide.cache import KeyShape, KVCache
from specguide.kernels.attention import ForwardContext, TorchAttention
from specguide.models.decoder import Decoder
from specguide.models.eagle3 import Eagle3Head as EngineHead
from training.data.draft_data import (
    Example,
    PackPlan,
    answer_greedily,
    batches,
    collate,
    pack_rows,
)
from training.evaluate.acceptance import measure, simulate_chain, tap
from training.heads.eagle3 import Eagle3Head, load_head, published_config, read_config, save_head
from training.heads.head_layers import HeadConfig
from training.heads.unroll import unroll, unroll_loss
from training.train.eagle3 import TrainPlan, first_head, new_head
from training.train.head_trainer import Trainer
from training.train.plan import learning_rate

DRAFT_IDS = torch.tensor([i for i in range(VOCAB) if i % 4 != 1])
PLAN = TrainPlan(
    num_steps=40,
    num_rows=2,
    row_len=40,
    warmup_steps=4,
    unroll_steps=3,
    draft_vocab_size=len(DRAFT_IDS),
    intermediate_size=40,
    num_key_value_heads=2,
    learning_rate=1e-2,
    aux_layers=(1, 2, 4),
)


def small_head(target: LlamaForCausalLM) -> Eagle3Head:
    return new_head(target, PLAN, DRAFT_IDS)


def norm(weights: dict[str, torch.Tensor], name: str, x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weights[f"{name}.weight"]


def rotate(x: torch.Tensor, position: int, theta: float) -> torch.Tensor:
    """x [heads, head_dim] by complex multiplication, a second way to write rotary positions."""
    half = x.shape[-1] // 2
    turn = torch.polar(torch.ones(half), position * theta ** (-torch.arange(half) / half))
    turned = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat((turned.real, turned.imag), dim=-1)


class DraftLoop:
    """Drafts token by token with a growing cache, as an engine does with the stored weights."""

    def __init__(self, head: Eagle3Head, embedding: torch.Tensor) -> None:
        self.w, self.c, self.embedding = dict(head.state_dict()), head.config, embedding
        self.cache: list[tuple[torch.Tensor, torch.Tensor]] = []

    def step(
        self, token: int, feature: torch.Tensor, position: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(logits [D], hidden [H]) after `token` with `feature` at `position`; the cache grows by
        one."""
        w, c, layer = self.w, self.c, "midlayer"
        x = torch.cat(
            (
                norm(w, f"{layer}.input_layernorm", self.embedding[token], c.rms_norm_eps),
                norm(w, f"{layer}.hidden_norm", feature, c.rms_norm_eps),
            )
        )
        q, k, v = (
            (w[f"{layer}.self_attn.{n}_proj.weight"] @ x).view(-1, c.head_dim) for n in "qkv"
        )
        self.cache.append((rotate(k, position, c.rope_theta), v))
        q = rotate(q, position, c.rope_theta)
        heads = []
        for h in range(c.num_attention_heads):
            kv = h // (c.num_attention_heads // c.num_key_value_heads)
            keys, values = (torch.stack([entry[i][kv] for entry in self.cache]) for i in (0, 1))
            heads.append((keys @ q[h] / c.head_dim**0.5).softmax(0) @ values)
        hidden = feature + w[f"{layer}.self_attn.o_proj.weight"] @ torch.cat(heads)
        y = norm(w, f"{layer}.post_attention_layernorm", hidden, c.rms_norm_eps)
        gate, up = w[f"{layer}.mlp.gate_proj.weight"] @ y, w[f"{layer}.mlp.up_proj.weight"] @ y
        hidden = hidden + w[f"{layer}.mlp.down_proj.weight"] @ (F.silu(gate) * up)
        return w["lm_head.weight"] @ norm(w, "norm", hidden, c.rms_norm_eps), hidden


def loop_logits(
    head: Eagle3Head, target: LlamaForCausalLM, example: Example, anchor: int, depth: int
) -> list:
    """Logits of `depth` draft steps from one anchor of one document, features from the document
    alone."""
    ids = torch.from_numpy(example.ids.astype(np.int64))
    states = target(ids[None], output_hidden_states=True).hidden_states
    aux_hidden_states = [states[i][0] for i in head.config.aux_layers[:2]]
    kept: list[torch.Tensor] = []
    hook = target.model.norm.register_forward_pre_hook(lambda _, args: kept.append(args[0][0]))
    target(ids[None])
    hook.remove()
    features = torch.cat((*aux_hidden_states, kept[0]), dim=-1) @ head.fc.weight.T
    loop = DraftLoop(head, target.get_input_embeddings().weight)
    for t in range(anchor + 1):
        logits, hidden = loop.step(int(ids[t + 1]), features[t], t)
    out = [logits]
    for s in range(1, depth):
        logits, hidden = loop.step(int(ids[anchor + 1 + s]), hidden, anchor + s)
        out.append(logits)
    return out


@torch.no_grad()
def test_unroll_equals_a_drafting_loop(target: LlamaForCausalLM) -> None:
    head = small_head(target)
    examples = some_examples(5)
    rows = list(pack_rows(examples, PLAN.row_len, np.arange(5)))
    assert any(len(row) > 1 for row in rows), "the case must hold several documents in one row"
    batch = collate(
        rows, PackPlan(PLAN.row_len, len(rows), prompt_rate=0.5), np.random.default_rng(0)
    )
    aux, _ = tap(target, batch, head.config.aux_layers)
    unrolled = unroll(head, aux, target.get_input_embeddings().weight, batch, 4)
    checked = 0
    for r, row in enumerate(rows):
        starts = np.cumsum([0, *(len(x.ids) for x in row)])
        for q in torch.nonzero(batch.anchor_mask[r]).flatten().tolist():
            at = int(batch.anchors[r, q])
            d = int(batch.document_ids[r, at])
            anchor = at - int(starts[d])
            depth = min(4, len(row[d].ids) - 1 - anchor)
            for s, expected in enumerate(loop_logits(head, target, row[d], anchor, depth)):
                torch.testing.assert_close(unrolled[s][r, q], expected, atol=2e-4, rtol=1e-4)
                checked += 1
    assert checked > 60


def test_saved_head_has_the_published_format(target: LlamaForCausalLM, tmp_path: Path) -> None:
    head = small_head(target)
    save_head(head, tmp_path)
    h, q, kv, i, d = HIDDEN, 32, 16, 40, len(DRAFT_IDS)
    layer, bf16 = "midlayer.", torch.bfloat16
    expected = {
        "fc.weight": ((h, 3 * h), bf16),
        "norm.weight": ((h,), bf16),
        "lm_head.weight": ((d, h), bf16),
        "d2t": ((d,), torch.int64),
        "t2d": ((VOCAB,), torch.bool),
        f"{layer}hidden_norm.weight": ((h,), bf16),
        f"{layer}input_layernorm.weight": ((h,), bf16),
        f"{layer}post_attention_layernorm.weight": ((h,), bf16),
        f"{layer}self_attn.q_proj.weight": ((q, 2 * h), bf16),
        f"{layer}self_attn.k_proj.weight": ((kv, 2 * h), bf16),
        f"{layer}self_attn.v_proj.weight": ((kv, 2 * h), bf16),
        f"{layer}self_attn.o_proj.weight": ((h, q), bf16),
        f"{layer}mlp.gate_proj.weight": ((i, h), bf16),
        f"{layer}mlp.up_proj.weight": ((i, h), bf16),
        f"{layer}mlp.down_proj.weight": ((h, i), bf16),
    }
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        found = {
            name: (tuple(file.get_tensor(name).shape), file.get_tensor(name).dtype)
            for name in file.keys()  # noqa: SIM118 (no mapping)
        }
        ids = file.get_tensor("d2t") + torch.arange(d)
        assert torch.equal(ids, DRAFT_IDS)
        assert torch.equal(torch.nonzero(file.get_tensor("t2d")).flatten(), DRAFT_IDS)
    assert found == expected
    config = json.loads((tmp_path / "config.json").read_text())
    assert (
        config["draft_vocab_size"] == d
        and config["vocab_size"] == VOCAB
        and config["num_hidden_layers"] == 1
    )
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 4]
    again = load_head(tmp_path)
    assert again.config == head.config
    torch.testing.assert_close(again.fc.weight, head.fc.weight.to(bf16).float(), atol=0, rtol=0)


class EngineLoop:
    """The engine's head and target, read from folders, drafting over one sequence in one page."""

    def __init__(self, target_folder: Path, head_folder: Path) -> None:
        self.target = Decoder.load(target_folder)
        self.head = EngineHead.load(head_folder, self.target)
        self.caches = {
            model: KVCache.allocate(KeyShape(layers, 2, 8), 1, 64, torch.float32, "cpu")
            for model, layers in ((self.target, 4), (self.head, 1))
        }

    def context(self, begin: int, end: int) -> ForwardContext:
        positions = torch.arange(begin, end)
        return ForwardContext(
            position_ids=positions,
            slot_mapping=positions,
            block_table=torch.tensor([[0]]).int(),
            query_start_loc=torch.tensor([0, end - begin]).int(),
            seq_lens=torch.tensor([end]).int(),
            max_query_len=end - begin,
            page_size=64,
            attention=TorchAttention(),
        )

    def draft(self, ids: torch.Tensor, anchor: int, depth: int) -> list[torch.Tensor]:
        """Logits of `depth` steps: the text up to `anchor` at once, then token after token."""
        _, aux_hidden_states = self.target.forward(
            ids[: anchor + 1],
            self.context(0, anchor + 1),
            self.caches[self.target],
            self.head.aux_layers,
        )
        assert aux_hidden_states is not None
        cache, out = self.caches[self.head], []
        fused = self.head.fuse(aux_hidden_states)
        hidden, normed = self.head.forward(
            ids[1 : anchor + 2], fused, self.context(0, anchor + 1), cache
        )
        for s in range(depth):
            out.append(self.head.draft_logits(normed[-1]))
            at = anchor + 1 + s
            if at + 1 < len(ids):
                hidden, normed = self.head.forward(
                    ids[at + 1 : at + 2], hidden[-1:], self.context(at, at + 1), cache
                )
        return out


@torch.no_grad()
def test_engine_drafts_what_training_unrolled(target: LlamaForCausalLM, tmp_path: Path) -> None:
    target.save_pretrained(tmp_path / "target")
    save_head(small_head(target), tmp_path / "head")
    head, engine = load_head(tmp_path / "head"), EngineLoop(tmp_path / "target", tmp_path / "head")
    assert torch.equal(engine.head.target_ids, DRAFT_IDS)
    example = some_examples(1, seed=8)[0]
    batch = collate(
        [[example]], PackPlan(len(example.ids), 1, prompt_rate=1.0), np.random.default_rng(0)
    )
    aux, _ = tap(target, batch, head.config.aux_layers)
    unrolled = unroll(head, aux, target.get_input_embeddings().weight, batch, 4)
    for q in range(int(batch.anchor_mask.sum())):
        anchor = int(batch.anchors[0, q])
        drafted = engine.draft(batch.input_ids[0], anchor, min(4, len(example.ids) - 1 - anchor))
        for s, logits in enumerate(drafted):
            torch.testing.assert_close(logits, unrolled[s][0, q], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("case", ["llama", "mistral-window", "gemma3", "gpt-oss"])
@torch.no_grad()
def test_packed_target_equals_each_document_alone(case: str) -> None:
    family, settings = CASES[case]
    target = random_model(family, **settings)
    rows = list(pack_rows(some_examples(4), 64, np.arange(4)))
    batch = collate(rows, PackPlan(64, len(rows), 0.0), np.random.default_rng(0))
    _, logits = tap(target, batch, (0, 1, 2))
    for r, row in enumerate(rows):
        start = 0
        for example in row:
            alone = target(torch.from_numpy(example.ids.astype(np.int64))[None]).logits[0]
            torch.testing.assert_close(
                logits[r, start : start + len(alone)], alone, atol=1e-4, rtol=1e-4
            )
            start += len(alone)


@torch.no_grad()
def test_loss_is_soft_cross_entropy_over_draftable_positions(target: LlamaForCausalLM) -> None:
    head = small_head(target)
    rows = list(pack_rows(some_examples(3), 40, np.arange(3)))
    batch = collate(rows, PackPlan(40, len(rows), 0.5), np.random.default_rng(0))
    aux, target_logits = tap(target, batch, head.config.aux_layers)
    logits = unroll(head, aux, target.get_input_embeddings().weight, batch, 3)
    expected = 0.0
    for s, scores in enumerate(logits):
        losses = []
        for r, q in torch.nonzero(batch.anchor_mask).tolist():
            t = int(batch.anchors[r, q])
            last = t + 2 + s
            if last >= 40 or batch.document_ids[r, last] != batch.document_ids[r, t]:
                continue
            row = target_logits[r, t + 1 + s]
            if int(row.argmax()) in DRAFT_IDS.tolist():
                losses.append(F.cross_entropy(scores[r, q], row[DRAFT_IDS].softmax(0)))
        assert losses, "every step must learn from some position"
        expected += 0.8**s * float(torch.stack(losses).mean())
    assert float(unroll_loss(head, logits, target_logits, batch)) == pytest.approx(
        expected, rel=1e-4
    )


@torch.no_grad()
def test_text_weight_is_the_share_of_the_text_s_own_cross_entropy(
    target: LlamaForCausalLM,
) -> None:
    head = small_head(target)
    rows = list(pack_rows(some_examples(3), 40, np.arange(3)))
    batch = collate(rows, PackPlan(40, len(rows), 0.5), np.random.default_rng(0))
    aux, target_logits = tap(target, batch, head.config.aux_layers)
    logits = unroll(head, aux, target.get_input_embeddings().weight, batch, 1)
    losses = []
    for r, q in torch.nonzero(batch.anchor_mask).tolist():
        next_id = int(batch.input_ids[r, batch.anchors[r, q] + 2])
        place = (next_id == DRAFT_IDS).nonzero()
        if len(place):
            losses.append(-float(logits[0][r, q].log_softmax(-1)[place[0, 0]]))
    soft, text, both = (
        float(unroll_loss(head, logits, target_logits, batch, share)) for share in (0, 1, 0.25)
    )
    assert 0 < len(losses) < int(batch.anchor_mask.sum())
    assert text == pytest.approx(np.mean(losses), rel=1e-4)
    assert both == pytest.approx(0.75 * soft + 0.25 * text, rel=1e-4)


def test_greedy_answers_equal_one_prompt_at_a_time(target: LlamaForCausalLM) -> None:
    examples = some_examples(5, seed=3)
    for example, answered in zip(
        examples, answer_greedily(target, examples, [EOS], 8, batch_size=3), strict=True
    ):
        ids = example.ids[: example.prompt_len].tolist()
        while len(ids) < example.prompt_len + 8 and (
            len(ids) == example.prompt_len or ids[-1] != EOS
        ):
            ids.append(int(target(torch.tensor([ids])).logits[0, -1].argmax()))
        assert answered.ids.tolist() == ids and answered.prompt_len == example.prompt_len


def test_simulated_chain() -> None:
    matched = np.array(
        [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]], bool
    )
    assert simulate_chain(matched) == [(2, 3), (3, 3)]
    assert simulate_chain(np.zeros((3, 2), bool)) == [(0, 2), (0, 2), (0, 1)]


def test_head_overfits_resumes_and_is_measured(target: LlamaForCausalLM, tmp_path: Path) -> None:
    examples = answer_greedily(target, some_examples(4, seed=3), [EOS], 10)
    ids = torch.arange(VOCAB)
    plan = TrainPlan(
        **{**PLAN.__dict__, "draft_vocab_size": VOCAB, "num_steps": 300, "prompt_rate": 0.0}
    )
    before = measure(new_head(target, plan, ids), target, examples, 3, plan.row_len)
    trainer = Trainer(new_head(target, plan, ids), target, plan, tmp_path)
    trainer.train(examples, until=0.0)
    assert trainer.step == 0
    for batch in batches(examples, PackPlan(plan.row_len, plan.num_rows, 0.0), plan.seed):
        trainer.train_step(batch, progress=trainer.step / plan.num_steps)
        if trainer.step == 75:
            break
    trainer.checkpoint()
    second = Trainer(new_head(target, plan, ids), target, plan, tmp_path)
    second.resume()
    assert second.step == 75
    second.train(examples)
    assert second.step == 300
    after = measure(second.head, target, examples, 3, plan.row_len)
    assert after.acceptance_length > max(2.8, before.acceptance_length)
    assert after.match_by_depth[0] > 0.95 and after.num_tokens == before.num_tokens
    other = Trainer(new_head(target, PLAN, DRAFT_IDS), target, PLAN, tmp_path)
    with pytest.raises(ValueError, match="other settings"):
        other.resume()


def test_a_run_decays_by_the_steps_or_the_time_whichever_is_further(
    target: LlamaForCausalLM, tmp_path: Path
) -> None:
    rates = [learning_rate(PLAN, step, step / PLAN.num_steps) for step in range(PLAN.num_steps)]
    assert (
        rates[0] < rates[1] < max(rates) <= PLAN.learning_rate
        and rates[-1] < 0.05 * PLAN.learning_rate
    )
    trainer = Trainer(small_head(target), target, replace(PLAN, num_steps=10**6), tmp_path)
    trainer.train(some_examples(8), until=time.monotonic() + 0.5)
    assert 0 < trainer.step < 10**6
    assert trainer.optimizer.param_groups[0]["lr"] < 0.5 * PLAN.learning_rate


def test_training_begins_with_a_given_head(target: LlamaForCausalLM, tmp_path: Path) -> None:
    save_head(small_head(target), tmp_path)
    head = first_head(target, None, PLAN, [], tmp_path)  # type: ignore[arg-type]
    assert head.draft_ids.tolist() == DRAFT_IDS.tolist() and all(
        torch.equal(x, y)
        for x, y in zip(head.parameters(), load_head(tmp_path).parameters(), strict=True)
    )


def test_config_names_unknown_to_a_head_are_kept_out() -> None:
    config = HeadConfig(8, 16, 2, 1, 4, 32, 16, (0, 1, 2))
    assert read_config(published_config(config)) == config


def test_rows_must_have_room_for_a_prompt() -> None:
    assert replace(PLAN, max_answer_len=30).prompt_room == 10
    with pytest.raises(SystemExit, match="--row-len 40 has no room for a prompt"):
        _ = replace(PLAN, max_answer_len=40).prompt_room
