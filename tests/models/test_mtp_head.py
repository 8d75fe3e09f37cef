"""The MTP head against one made of transformers' own layer, and what its folder may get wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_files import config_in, save_checkpoint, weights_in
from mtp_heads import (
    CONFIG,
    PREFIX,
    Weights,
    in_deepseeks_style,
    in_qwens_style,
    of_head_alone,
    random_mtp,
    save_mimo,
)
from paging import Sequences
from random_models import (
    DEEPSEEK3,
    DEEPSEEK3_SETTINGS,
    EXPERTS,
    GLM4_MOE,
    GLM4_MOE_LITE,
    GLM4_MOE_SETTINGS,
    LATENT_SETTINGS,
    LINEAR_EXPERTS,
    LINEAR_SETTINGS,
    NO_PAD,
    QWEN3_5,
    QWEN3_NEXT,
    random_model,
)
from stored_keys import check_keys
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model

from specguide.errors import CheckpointError
from specguide.models import Decoder, MtpHead

LENGTH = 30
SHAPE = {
    name: value for name, value in CONFIG.items() if name not in ("architectures", "model_type")
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_mimo(tmp_path_factory.mktemp("mimo"))


@pytest.fixture(scope="module")
def target(folder: Path) -> Decoder:
    return Decoder.load(folder)


class SlowHead:
    """The head over a whole sequence at once, its layer by transformers."""

    def __init__(
        self,
        weights: Weights,
        embeddings: Tensor,
        *,
        is_deepseek: bool = False,
        is_qwen: bool = False,
        model: Any = None,
    ) -> None:
        """model: whose last layer the head has; None: a Qwen2 with that of `weights`"""
        self.is_deepseek, self.is_qwen = is_deepseek, is_qwen
        self.weights, self.embeddings = (
            {name.removeprefix(PREFIX): weights[name] for name in weights},
            embeddings,
        )
        self.model = model
        if model is None:
            self.model = Qwen2Model(Qwen2Config(**{**SHAPE, "num_hidden_layers": 1})).eval()
            layer = {
                name: self.weights[name]
                for name in self.weights
                if name.split(".")[0]
                in ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
            }
            self.model.layers[0].load_state_dict(layer)

    def norm(self, name: str, x: Tensor) -> Tensor:
        return (
            x
            / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            * (self.weights[f"{name}.weight"] + self.is_qwen)
        )

    def forward(self, input_ids: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """The features that the next step reads, and the same behind the final norm."""
        halves = (
            self.norm("hidden_layernorm", features),
            self.norm("token_layernorm", self.embeddings[input_ids]),
        )
        x = torch.cat(halves[::-1] if self.is_deepseek or self.is_qwen else halves, dim=-1)
        x = (x @ self.weights["input_proj.weight"].T)[None]
        positions = torch.arange(x.shape[1])[None]
        out = self.model.layers[-1](
            x,
            attention_mask=None,
            position_ids=positions,
            position_embeddings=self.model.rotary_emb(x, positions),
        )
        normed = self.norm("final_layernorm", out[0])
        return out[0] if self.is_deepseek else normed, normed


@torch.inference_mode()
def check_drafting(head: MtpHead, slow: SlowHead, target: Decoder, num_steps: int = 4) -> None:
    """Refresh from the target in two chunks, then feed the head its own output and greedy
    tokens."""
    check_keys(head)
    ids = torch.randint(
        0, CONFIG["vocab_size"], (LENGTH + 1,), generator=torch.Generator().manual_seed(2)
    )
    sequences = Sequences(1, LENGTH + num_steps)
    caches = [sequences.cache(model.config) for model in (target, head)]
    fused, outputs = [], []
    for start, end in ((0, 19), (19, LENGTH)):
        context = sequences.extend([end - start])
        hidden, last = target.forward(ids[start:end], context, caches[0], head.aux_layers)
        torch.testing.assert_close(target.norm(last), hidden, atol=1e-5, rtol=1e-5)
        fused.append(hidden if slow.is_deepseek or slow.is_qwen else last)
        drafted, normed = head.forward(
            ids[start + 1 : end + 1], head.fuse(last), context, caches[1]
        )
        outputs.append(normed)
    features, next_ids = torch.cat(fused), ids[1:]
    for step in range(num_steps):
        expected_features, expected = slow.forward(next_ids, features)
        found = torch.cat(outputs) if step == 0 else normed
        torch.testing.assert_close(found, expected[-len(found) :], atol=1e-4, rtol=1e-4)
        logits = head.draft_logits(normed[-1:])
        torch.testing.assert_close(
            logits, expected[-1:] @ target.lm_head.weights.weight.T, atol=1e-4, rtol=1e-4
        )
        token = logits.argmax(-1)
        features = torch.cat((features, expected_features[-1:]))
        next_ids = torch.cat((next_ids, token))
        drafted, normed = head.forward(token, drafted[-1:], sequences.extend([1]), caches[1])


def test_drafting_equals_the_slow_head(folder: Path, target: Decoder) -> None:
    head = MtpHead.load(folder, target)
    assert head.aux_layers == (3,) and head.target_ids is None and head.config.num_layers == 1
    check_drafting(head, SlowHead(random_mtp(CONFIG), target.embedding.weight), target)


def test_a_folder_of_its_own(target: Decoder, tmp_path: Path) -> None:
    weights = random_mtp(CONFIG, seed=5)
    head = MtpHead.load(save_checkpoint(tmp_path, CONFIG, weights), target)
    check_drafting(head, SlowHead(weights, target.embedding.weight), target)


def test_a_head_in_deepseeks_style(folder: Path, target: Decoder, tmp_path: Path) -> None:
    """The head lies in the target's own folder, where it is numbered as one layer more."""
    weights = random_mtp(CONFIG, seed=6)
    stored = weights_in(folder)
    kept = {name: tensor for name, tensor in stored.items() if not name.startswith(PREFIX)}
    copies = {
        "model.layers.3.embed_tokens.weight": kept["model.embed_tokens.weight"].clone(),
        "model.layers.3.shared_head.head.weight": kept["lm_head.weight"].clone(),
    }
    save_checkpoint(tmp_path, CONFIG, {**kept, **in_deepseeks_style(weights, 3), **copies})
    assert MtpHead.is_in(tmp_path)
    target = Decoder.load(tmp_path)
    slow = SlowHead(weights, target.embedding.weight, is_deepseek=True)
    check_drafting(MtpHead.load(tmp_path, target), slow, target)


@pytest.mark.parametrize(
    ("family", "own"),
    [
        (GLM4_MOE, GLM4_MOE_SETTINGS),
        (DEEPSEEK3, DEEPSEEK3_SETTINGS),
        (GLM4_MOE_LITE, LATENT_SETTINGS | NO_PAD),
    ],
    ids=["GLM-4.5", "DeepSeek-V3", "GLM-4.7-Flash"],
)
def test_a_head_with_experts(family: Any, own: dict[str, Any], tmp_path: Path) -> None:
    """Its layer has experts, though the first layer of the target has none."""
    settings = {**own, "num_hidden_layers": 4, "attn_implementation": "sdpa"}
    model = random_model(family, **settings)
    model.save_pretrained(tmp_path)
    config = config_in(tmp_path) | {"num_hidden_layers": 3}
    config.pop("mlp_layer_types", None)
    sizes = {"hidden_size": 64, "intermediate_size": 8, "head_dim": 8, "attention_bias": False}
    others = of_head_alone(random_mtp(CONFIG | sizes, seed=7))
    stored = weights_in(tmp_path) | in_deepseeks_style(others, 3)
    save_checkpoint(tmp_path, config, stored)
    target = Decoder.load(tmp_path)
    slow = SlowHead(others, target.embedding.weight, is_deepseek=True, model=model.model)
    check_drafting(MtpHead.load(tmp_path, target), slow, target)


@pytest.mark.parametrize(
    ("family", "own"),
    [(QWEN3_5, LINEAR_SETTINGS), (QWEN3_NEXT, LINEAR_EXPERTS | EXPERTS)],
    ids=["Qwen3.5", "Qwen3-Next"],
)
def test_a_head_beside_linear_attention(family: Any, own: dict[str, Any], tmp_path: Path) -> None:
    """Its layer has grouped-query attention, whatever kind the last one of the target has."""
    kinds = ["full_attention", "linear_attention", "full_attention"]
    shape = {"attn_implementation": "sdpa", "layer_types": kinds, "vocab_size": 90}
    model = random_model(family, **{**own, **shape})
    model.save_pretrained(tmp_path)
    config = config_in(tmp_path)
    config |= {"num_hidden_layers": 2, "layer_types": kinds[:2], "mtp_num_hidden_layers": 1}
    sizes = {"hidden_size": 64, "intermediate_size": 8, "head_dim": 8, "attention_bias": False}
    others = of_head_alone(random_mtp(CONFIG | sizes, seed=7))
    stored = weights_in(tmp_path) | others
    save_checkpoint(tmp_path, config, in_qwens_style(stored, 2))
    target = Decoder.load(tmp_path)
    slow = SlowHead(others, target.embedding.weight, is_qwen=True, model=model.model)
    assert MtpHead.is_in(tmp_path)
    check_drafting(MtpHead.load(tmp_path, target), slow, target)


def test_the_target_is_a_qwen2_in_all_but_name(folder: Path, target: Decoder) -> None:
    stored = {name: it for name, it in weights_in(folder).items() if "mtp" not in name}
    model = Qwen2ForCausalLM(Qwen2Config(**SHAPE)).eval()
    model.load_state_dict(stored)
    ids, sequences = torch.arange(20), Sequences(1, 20)
    with torch.inference_mode():
        hidden, _ = target.forward(ids, sequences.extend([20]), sequences.cache(target.config))
        torch.testing.assert_close(
            target.logits(hidden), model(ids[None]).logits[0], atol=1e-4, rtol=1e-4
        )


FAULTS: list[tuple[dict[str, Any], Callable[[Weights], object], str]] = [
    (
        {"vocab_size": 91},
        lambda weights: None,
        "for a target with vocabulary 91, and the target has 90",
    ),
    (
        {"hidden_size": 28},
        lambda weights: None,
        "for a target with hidden size 28, and the target has 24; give the folder",
    ),
    (
        {"num_nextn_predict_layers": 2},
        lambda weights: None,
        "'num_nextn_predict_layers' is 2, and only one module, .* set it to 1 there",
    ),
    (
        {"num_nextn_predict_layers": 0},
        lambda weights: None,
        "'num_nextn_predict_layers' must be an integer ≥ 1",
    ),
    (
        {"architectures": ["MiMoV2FlashForCausalLM"]},
        lambda weights: None,
        "'MiMoV2FlashForCausalLM' is unknown",
    ),
    (
        {"architectures": ["LlamaForCausalLM"], "attention_bias": False},
        lambda weights: None,
        r"does not have: model\.mtp_layers\.0\.self_attn\.k_proj\.bias",
    ),
    (
        {},
        lambda weights: weights.clear() or weights.update(other=torch.ones(1)),
        r"has no tensor 'model\.mtp_layers\.0\.\*', so it holds no MTP head; give the folder",
    ),
    ({"nap_time": "noon"}, lambda weights: None, "'nap_time' 'noon' is unknown"),
    (
        {},
        lambda weights: weights.pop(f"{PREFIX}input_proj.weight"),
        r"missing weights: .*input_proj\.weight",
    ),
    (
        {},
        lambda weights: weights.update({"model.mtp_layers.1.input_proj.weight": torch.ones(2)}),
        r"does not have: model\.mtp_layers\.1\.input_proj\.weight",
    ),
]


@pytest.mark.parametrize(
    ("settings", "change", "message"), FAULTS, ids=[message for *_, message in FAULTS]
)
def test_what_does_not_fit(
    settings: dict[str, Any],
    change: Callable[[Weights], object],
    message: str,
    target: Decoder,
    tmp_path: Path,
) -> None:
    weights = random_mtp(CONFIG)
    change(weights)
    with pytest.raises(CheckpointError, match=message):
        MtpHead.load(save_checkpoint(tmp_path, {**CONFIG, **settings}, weights), target)


def test_no_folder(target: Decoder, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a folder"):
        MtpHead.load(tmp_path / "nowhere", target)


@pytest.mark.parametrize("prefix", ["model.layers.3.", "mtp.layers.0.", "model.mtp_layers.0."])
def test_a_target_loads_without_its_mtp_layers(prefix: str, folder: Path, tmp_path: Path) -> None:
    """Numbered on behind its own, as DeepSeek has them, or under a name of their own."""
    stored = weights_in(folder)
    kept = {name: tensor for name, tensor in stored.items() if not name.startswith(PREFIX)}
    more = {f"{prefix}{name}.weight": torch.ones(24) for name in ("enorm", "hnorm")}
    save_checkpoint(tmp_path, CONFIG, {**kept, **more})
    assert kept.keys() <= Decoder.load(tmp_path).destinations().keys()


def test_layers_behind_the_last_that_nothing_tells_of_are_left_over(
    folder: Path, tmp_path: Path
) -> None:
    stored = weights_in(folder)
    save_checkpoint(tmp_path, CONFIG, {**stored, "model.layers.4.enorm.weight": torch.ones(24)})
    with pytest.raises(CheckpointError, match=r"does not have: model\.layers\.4\.enorm\.weight"):
        Decoder.load(tmp_path)
