"""The EAGLE-3 head against a slow one written from the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_files import save_checkpoint, weights_in
from eagle3_heads import (
    CONFIG,
    TARGET_HIDDEN,
    VOCAB_SIZE,
    Weights,
    load_target,
    random_head,
)
from paging import Sequences
from slow_head import SlowHead
from stored_keys import check_keys

from specguide.drafts.tree import DraftTree
from specguide.errors import CheckpointError
from specguide.models import Decoder, Eagle3Head

LENGTH = 30
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return load_target(tmp_path_factory.mktemp("target"))


def slow_head(config: dict[str, Any], weights: Weights, target: Decoder) -> SlowHead:
    theta, dim = config["rope_theta"], config["head_dim"]
    inv_freq = torch.tensor([theta ** (-2 * i / dim) for i in range(dim // 2)])
    if config.get("rope_scaling"):

        def stretch(frequency: float) -> float:
            rope = config["rope_scaling"]
            waves = rope["original_max_position_embeddings"] * frequency / (2 * torch.pi)
            keep = (waves - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"]
            )
            keep = min(1.0, max(0.0, keep))
            return keep * frequency + (1 - keep) * frequency / rope["factor"]

        inv_freq = torch.tensor([stretch(frequency) for frequency in inv_freq.tolist()])
    return SlowHead(
        config, weights, weights.get("embed_tokens.weight", target.embedding.weight), inv_freq
    )


@torch.inference_mode()
def check_drafting(head: Eagle3Head, slow: SlowHead, target: Decoder, num_steps: int = 4) -> None:
    """Refresh from the target in two chunks, then feed the head its own features and greedy
    tokens."""
    check_keys(head)
    ids = torch.randint(0, VOCAB_SIZE, (LENGTH + 1,), generator=torch.Generator().manual_seed(2))
    sequences = Sequences(1, LENGTH + num_steps)
    target_cache, head_cache = sequences.cache(target.config), sequences.cache(head.config)
    fused, hiddens = [], []
    for start, count in ((0, 19), (19, LENGTH - 19)):
        context = sequences.extend([count])
        _, aux_hidden_states = target.forward(
            ids[start : start + count], context, target_cache, head.aux_layers
        )
        assert aux_hidden_states is not None
        fused.append(head.fuse(aux_hidden_states))
        hidden, normed = head.forward(
            ids[start + 1 : start + count + 1], fused[-1], context, head_cache
        )
        hiddens.append(hidden)
        torch.testing.assert_close(
            fused[-1], slow.linear("fc", aux_hidden_states), atol=1e-4, rtol=1e-4
        )
    features, next_ids = torch.cat(fused), ids[1:]
    for step in range(num_steps + 1):
        expected = slow.forward(next_ids, features)
        hidden = torch.cat(hiddens) if step == 0 else hiddens[-1]
        torch.testing.assert_close(hidden, expected[-len(hidden) :], atol=1e-4, rtol=1e-4)
        logits = head.draft_logits(normed[-1:])
        torch.testing.assert_close(logits, slow.logits(expected[-1:]), atol=1e-4, rtol=1e-4)
        if step == num_steps:
            return
        token = head.target_ids[logits.argmax(-1)]
        features, next_ids = torch.cat((features, expected[-1:])), torch.cat((next_ids, token))
        hidden, normed = head.forward(token, hidden[-1:], sequences.extend([1]), head_cache)
        hiddens.append(hidden)


VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "llama3-rope": {"rope_scaling": LLAMA3_ROPE},
    "norm-before-residual": {"norm_before_residual": True},
    "sliding-window": {"sliding_window": 5},
    "window-of-one": {"sliding_window": 1},
    "official-architecture": {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 40},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_drafting_equals_the_slow_head(name: str, target: Decoder, tmp_path: Path) -> None:
    config = {**CONFIG, **VARIANTS[name]}
    weights = random_head(config)
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    assert head.aux_layers == (2, 3, 3)
    assert (head.config.num_layers, head.config.num_kv_heads, head.config.head_dim) == (1, 2, 10)
    check_drafting(head, slow_head(config, weights, target), target)


@torch.inference_mode()
@pytest.mark.parametrize("window", [None, 1, 2, 3, 9])
def test_each_path_of_a_tree_equals_the_slow_head(
    window: int | None, target: Decoder, tmp_path: Path
) -> None:
    config = {**CONFIG, "sliding_window": window}
    weights = random_head(config)
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    slow = slow_head(config, weights, target)
    tree, random = DraftTree((-1, 0, 0, 1, 1, 2, 4, 6)), torch.Generator().manual_seed(3)
    lengths = [7, 12]
    sequences = Sequences(len(lengths), 12 + tree.num_nodes)
    cache = sequences.cache(head.config)
    ids = [
        torch.randint(0, VOCAB_SIZE, (length + tree.num_nodes,), generator=random)
        for length in lengths
    ]
    features = [torch.randn(len(row), head.config.hidden_size, generator=random) for row in ids]
    head.forward(
        torch.cat([row[:length] for row, length in zip(ids, lengths, strict=True)]),
        torch.cat([row[:length] for row, length in zip(features, lengths, strict=True)]),
        sequences.extend(lengths),
        cache,
    )
    nodes, _ = head.forward(
        torch.cat([row[length:] for row, length in zip(ids, lengths, strict=True)]),
        torch.cat([row[length:] for row, length in zip(features, lengths, strict=True)]),
        sequences.tree(tree),
        cache,
    )
    for seq, length in enumerate(lengths):
        for node in range(tree.num_nodes):
            seen = [*range(length), *(length + other for other in tree.path(node))]
            expected = slow.forward(ids[seq][seen], features[seq][seen])[-1]
            torch.testing.assert_close(
                nodes[seq * tree.num_nodes + node], expected, atol=1e-4, rtol=1e-4
            )


def test_a_head_of_another_size_with_its_own_embeddings(target: Decoder, tmp_path: Path) -> None:
    config = {**CONFIG, "hidden_size": 28, "target_hidden_size": TARGET_HIDDEN}
    weights = random_head(config)
    weights["embed_tokens.weight"] = torch.randn(VOCAB_SIZE, 28)
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    check_drafting(head, slow_head(config, weights, target), target)
    del weights["embed_tokens.weight"]
    with pytest.raises(
        CheckpointError, match=r"'embed_tokens\.weight' is missing.*size 24, .*needs 28"
    ):
        Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.replace("midlayer.", "layers.0."),
        lambda name: name if name in ("d2t", "t2d", "lm_head.weight") else f"model.{name}",
        lambda name: f"model.{name}".replace("midlayer.", "layers.0."),
    ],
    ids=["layers.0", "model", "model.layers.0"],
)
def test_names_in_use(rename: Callable[[str], str], target: Decoder, tmp_path: Path) -> None:
    weights = random_head(CONFIG)
    save_checkpoint(tmp_path, CONFIG, {rename(name): tensor for name, tensor in weights.items()})
    check_drafting(
        Eagle3Head.load(tmp_path, target), slow_head(CONFIG, weights, target), target, num_steps=1
    )


def test_pickled_head(target: Decoder, tmp_path: Path) -> None:
    weights = random_head(CONFIG)
    save_checkpoint(tmp_path, CONFIG, weights)
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    check_drafting(
        Eagle3Head.load(tmp_path, target), slow_head(CONFIG, weights, target), target, num_steps=1
    )


def test_whole_vocabulary_needs_neither_map_nor_matrix(target: Decoder, tmp_path: Path) -> None:
    config = {**CONFIG, "draft_vocab_size": None}
    weights = random_head({**CONFIG, "draft_vocab_size": VOCAB_SIZE})
    for name in ("d2t", "t2d", "lm_head.weight"):
        del weights[name]
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    assert torch.equal(head.target_ids, torch.arange(VOCAB_SIZE))
    weights["lm_head.weight"] = target.lm_head.weights.weight
    check_drafting(head, slow_head(CONFIG, weights, target), target, num_steps=2)


def tied_head(config: dict[str, Any]) -> Weights:
    """Weights of a head with embeddings of its own for the whole vocabulary, and no output
    matrix."""
    weights = random_head({**config, "draft_vocab_size": VOCAB_SIZE})
    for name in ("d2t", "t2d", "lm_head.weight"):
        del weights[name]
    weights["embed_tokens.weight"] = torch.randn(VOCAB_SIZE, config["hidden_size"])
    return weights


@pytest.mark.parametrize("hidden_size", [24, 28])
def test_a_tied_head_is_tied_to_its_own_embeddings(
    hidden_size: int, target: Decoder, tmp_path: Path
) -> None:
    config = {
        **CONFIG,
        "draft_vocab_size": None,
        "hidden_size": hidden_size,
        "target_hidden_size": TARGET_HIDDEN,
        "tie_word_embeddings": True,
    }
    weights = tied_head(config)
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    weights["lm_head.weight"] = weights["embed_tokens.weight"]
    check_drafting(head, slow_head(config, weights, target), target, num_steps=2)
    weights["lm_head.weight"] = weights["embed_tokens.weight"].clone()
    Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    weights["lm_head.weight"][3, 5] += 1
    with pytest.raises(
        CheckpointError, match=r"has 'tie_word_embeddings': true, but lm_head\.weight is not equal"
    ):
        Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)


def test_a_head_that_is_not_tied_takes_the_output_matrix_of_the_target(
    target: Decoder, tmp_path: Path
) -> None:
    config = {**CONFIG, "draft_vocab_size": None}
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, tied_head(config)), target)
    assert head.lm_head is target.lm_head and head.embedding is not target.embedding


def test_a_pruned_head_keeps_its_output_matrix_where_it_says_tied(
    target: Decoder, tmp_path: Path
) -> None:
    """Heads are published with the flag of their target and a matrix of their own."""
    weights = random_head(CONFIG)
    weights["embed_tokens.weight"] = torch.randn(VOCAB_SIZE, CONFIG["hidden_size"])
    head = Eagle3Head.load(
        save_checkpoint(tmp_path, {**CONFIG, "tie_word_embeddings": True}, weights), target
    )
    assert torch.equal(head.lm_head.weights.weight, weights["lm_head.weight"])


def test_target_ids_are_absolute(target: Decoder, tmp_path: Path) -> None:
    weights = random_head(CONFIG)
    head = Eagle3Head.load(save_checkpoint(tmp_path, CONFIG, weights), target)
    assert head.target_ids.dtype == torch.int32
    assert torch.equal(head.target_ids, weights["t2d"].nonzero().flatten())


def test_stated_layers_reach_the_target(target: Decoder, tmp_path: Path) -> None:
    config = {**CONFIG, "eagle_aux_hidden_state_layer_ids": [0, 2, 5, 6]}
    weights = random_head(config, num_aux_layers=4)
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    check_drafting(head, slow_head(config, weights, target), target, num_steps=1)


def test_speculators_layout(target: Decoder, tmp_path: Path) -> None:
    top = ("architectures", "draft_vocab_size")
    config: dict[str, Any] = {name: CONFIG[name] for name in top}
    config |= {
        "transformer_layer_config": {
            name: value for name, value in CONFIG.items() if name not in top
        },
        "speculators_model_type": "eagle3",
        "norm_before_residual": True,
        "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": None,
    }
    weights = random_head(CONFIG)
    head = Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)
    check_drafting(
        head,
        slow_head({**CONFIG, "norm_before_residual": True}, weights, target),
        target,
        num_steps=1,
    )
    del config["norm_before_residual"]
    with pytest.raises(CheckpointError, match="'norm_before_residual' is missing"):
        Eagle3Head.load(save_checkpoint(tmp_path, config, weights), target)


def test_bfloat16_head(tmp_path: Path, target: Decoder) -> None:
    weights = random_head(CONFIG)
    save_checkpoint(
        tmp_path,
        CONFIG,
        {
            name: tensor.bfloat16() if tensor.is_floating_point() else tensor
            for name, tensor in weights.items()
        },
    )
    small = Decoder(target.config, dtype=torch.bfloat16)
    head = Eagle3Head.load(tmp_path, small)
    assert (
        head.dtype,
        head.lm_head.weights.weight.dtype,
        head.draft_logits(torch.ones(1, 24).bfloat16()).dtype,
    ) == (torch.bfloat16, torch.bfloat16, torch.bfloat16)
    assert torch.equal(head.fusion.fc.weights.weight, weights_in(tmp_path)["fc.weight"])
