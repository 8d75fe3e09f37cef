"""The decoder against `transformers`, family by family, and against itself over chunks, pages and
trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from checkpoint_files import changed_json
from paging import Sequences
from random_models import CASES, LENGTH, LLAMA, VOCAB_SIZE, random_model, tokens
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import (
    PreTrainedModel,
)

from specguide import kernels
from specguide.drafts.tree import DraftTree
from specguide.errors import InvalidParams
from specguide.kernels import pointwise
from specguide.kernels.attention import AttentionPlan, ForwardContext, OutputRows
from specguide.kernels.experts import ExpertMatrices, Routing
from specguide.models import Decoder


@torch.inference_mode()
def prefill(
    decoder: Decoder, ids: Tensor, aux_layers: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor | None]:
    sequences = Sequences(1, len(ids))
    hidden, aux_hidden_states = decoder.forward(
        ids,
        sequences.extend([len(ids)]),
        sequences.cache(decoder.config, decoder.dtype),
        aux_layers,
    )
    return decoder.logits(hidden), aux_hidden_states


@pytest.fixture(scope="module", params=CASES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PreTrainedModel, Decoder]:
    family, settings = CASES[request.param]
    model = random_model(family, **settings)
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    return model, Decoder.load(folder)


def test_logits_and_taps_equal_transformers(pair: tuple[PreTrainedModel, Decoder]) -> None:
    model, decoder = pair
    ids = tokens(LENGTH)
    logits, aux_hidden_states = prefill(decoder, ids, (2, 0, 2))
    with torch.inference_mode():
        expected = model(ids[None], output_hidden_states=True)
    assert expected.logits.std() > 0.1
    torch.testing.assert_close(logits, expected.logits[0], atol=1e-4, rtol=1e-4)
    assert aux_hidden_states is not None
    states = [expected.hidden_states[layer][0] for layer in (2, 0, 2)]
    torch.testing.assert_close(aux_hidden_states, torch.cat(states, dim=-1), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_chunks_of_a_ragged_batch_equal_one_prefill(pair: tuple[PreTrainedModel, Decoder]) -> None:
    _, decoder = pair
    ids = tokens(2, LENGTH)
    expected = [prefill(decoder, row)[0] for row in ids]
    sequences = Sequences(2, LENGTH)
    cache = sequences.cache(decoder.config)
    # A ragged prefill, verification of equal chunks, single tokens, and a step that one sequence
    # sits out.
    for counts in ([23, 9], [4, 4], [1, 1], [1, 1], [7, 3], [0, 5], [4, 4], [20, 33]):
        starts = list(sequences.lengths)
        context = sequences.extend(counts)
        chunk = torch.cat(
            [
                ids[seq, start : start + count]
                for seq, (start, count) in enumerate(zip(starts, counts, strict=True))
            ]
        )
        logits = decoder.logits(decoder.forward(chunk, context, cache)[0])
        wanted = torch.cat(
            [
                expected[seq][start : start + count]
                for seq, (start, count) in enumerate(zip(starts, counts, strict=True))
            ]
        )
        torch.testing.assert_close(logits, wanted, atol=2e-4, rtol=1e-4)
    assert sequences.lengths == [LENGTH, LENGTH]


@torch.inference_mode()
def test_every_node_of_a_tree_equals_its_path(pair: tuple[PreTrainedModel, Decoder]) -> None:
    _, decoder = pair
    tree = DraftTree((-1, 0, 0, 1, 1, 2, 5))
    ids, drafts = tokens(2, 21), tokens(2, 31)[:, 21 : 21 + tree.num_nodes]
    sequences = Sequences(2, 40)
    cache = sequences.cache(decoder.config)
    decoder.forward(ids.flatten(), sequences.extend([21, 21]), cache)
    context = sequences.tree(tree)
    logits = decoder.logits(decoder.forward(drafts.flatten(), context, cache)[0]).view(
        2, tree.num_nodes, -1
    )
    for seq in range(2):
        for node in range(tree.num_nodes):
            path = torch.cat((ids[seq], drafts[seq, list(tree.path(node))]))
            torch.testing.assert_close(
                logits[seq, node], prefill(decoder, path)[0][-1], atol=2e-4, rtol=1e-4
            )


@torch.inference_mode()
def test_some_outputs_are_those_of_all_and_keys_are_the_same(
    pair: tuple[PreTrainedModel, Decoder],
) -> None:
    _, decoder = pair
    ids, last = tokens(30), torch.tensor([20, 29])
    for layers in ((1, 2), (decoder.config.num_layers,)):
        first, second = Sequences(2, 40), Sequences(2, 40)
        caches = [each.cache(decoder.config) for each in (first, second)]
        whole, aux = decoder.forward(ids, first.extend([21, 9]), caches[0], layers)
        context = second.extend([21, 9])
        outputs = OutputRows.last_tokens(context, last)
        some, same_aux = decoder.forward(ids, context, caches[1], layers, outputs)
        torch.testing.assert_close(some, whole[last], atol=2e-5, rtol=1e-5)
        assert torch.equal(aux, same_aux)
        for one, other in zip(
            (*caches[0].keys, *caches[0].values),
            (*caches[1].keys, *caches[1].values),
            strict=True,
        ):
            assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["llama", "llama-linear", "llama-llama3", "llama-yarn-mscale"])
def test_rope_in_the_older_spelling(name: str, tmp_path: Path) -> None:
    family, settings = CASES[name]
    model = random_model(family, **settings)
    model.save_pretrained(tmp_path)
    with changed_json(tmp_path) as config:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        rope["type"] = rope.pop("rope_type")
        config["rope_scaling"] = None if rope == {"type": "default"} else rope
    with torch.inference_mode():
        expected = model(tokens(1, LENGTH)).logits[0]
    torch.testing.assert_close(
        prefill(Decoder.load(tmp_path), tokens(LENGTH))[0], expected, atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("name", ["llama", "llama-tied", "qwen2", "qwen3-window", "gemma3"])
def test_shards_and_bfloat16(name: str, tmp_path: Path) -> None:
    family, settings = CASES[name]
    random_model(family, **settings).to(torch.bfloat16).save_pretrained(
        tmp_path, max_shard_size="30KB"
    )
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    decoder = Decoder.load(tmp_path, dtype=torch.bfloat16)
    assert decoder.embedding.weight.dtype == torch.bfloat16
    logits, _ = prefill(decoder, tokens(LENGTH))
    with torch.inference_mode():
        expected = (
            family[1].from_pretrained(tmp_path, dtype=torch.float32)(tokens(1, LENGTH)).logits[0]
        )
    assert logits.dtype == torch.bfloat16
    assert (logits.float() - expected).norm() < 0.03 * expected.norm()
    wide, _ = prefill(Decoder.load(tmp_path, dtype=torch.float32), tokens(LENGTH))
    torch.testing.assert_close(wide, expected, atol=1e-4, rtol=1e-4)


def test_last_hidden_state_can_be_tapped(tmp_path: Path) -> None:
    random_model(LLAMA).save_pretrained(tmp_path)
    decoder = Decoder.load(tmp_path)
    logits, aux_hidden_states = prefill(decoder, tokens(12), (decoder.config.num_layers,))
    assert aux_hidden_states is not None
    variance = aux_hidden_states.pow(2).mean(-1, keepdim=True)
    normed = aux_hidden_states * (variance + decoder.config.norm.eps).rsqrt() * decoder.norm.weight
    torch.testing.assert_close(decoder.logits(normed), logits, atol=1e-5, rtol=1e-5)
    assert prefill(decoder, tokens(12))[1].shape == (12, 0)


def test_more_positions_than_the_model_has(tmp_path: Path) -> None:
    random_model(LLAMA).save_pretrained(tmp_path)
    assert Decoder.load(tmp_path, max_positions=16).max_positions == 16
    with pytest.raises(InvalidParams, match="max_model_len must be at most 128"):
        Decoder.load(tmp_path, max_positions=129)


class NoAttention:
    """Attention that gives the queries back."""

    def plan(self, context: ForwardContext) -> AttentionPlan:
        return self

    def pair(
        self, leader: ForwardContext, follower: ForwardContext
    ) -> tuple[AttentionPlan, AttentionPlan]:
        return self, self

    def run(self, query: Tensor, *caches: Tensor, **arguments: object) -> Tensor:
        return query


def no_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the products of experts out: on a CPU they read which experts are in use, and on a GPU
    they do not."""

    def gated(x: Tensor, matrices: ExpertMatrices, routing: Routing, limits: object) -> Tensor:
        return x.new_zeros(routing.weights.numel(), matrices.out_features // 2)

    def parts(inner: Tensor, matrices: ExpertMatrices, routing: Routing) -> Tensor:
        num_tokens, num_chosen = routing.weights.shape
        return inner.new_zeros(num_chosen, num_tokens, matrices.out_features)

    cpu = torch.device("cpu")
    monkeypatch.setitem(kernels.gated_experts.implementations, cpu, gated)
    monkeypatch.setitem(kernels.expert_parts.implementations, cpu, parts)


@pytest.mark.parametrize("name", ["llama", "qwen3-window", "gemma3", "qwen3-moe"])
def test_forward_never_reads_a_tensor_back(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a CUDA graph capture asks for: fake tensors have shapes but no values, so reading one
    raises."""
    family, settings = CASES[name]
    random_model(family, **settings).save_pretrained(tmp_path)
    decoder = Decoder.load(tmp_path)
    sequences = Sequences(1, 8)
    context = replace(sequences.extend([5]), attention=NoAttention())
    cache = sequences.cache(decoder.config)
    monkeypatch.setattr(pointwise, "store_kv", lambda *args: None)
    no_products(monkeypatch)
    decoder.forward(tokens(5), context, cache)  # makes what is made once, as before a capture
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        ids = mode.from_tensor(tokens(5))
        hidden, aux_hidden_states = decoder.forward(ids, context, cache, (0, 1, 2))
        assert decoder.logits(hidden).shape == (5, VOCAB_SIZE)
        assert aux_hidden_states is not None and aux_hidden_states.shape == (5, 192)
