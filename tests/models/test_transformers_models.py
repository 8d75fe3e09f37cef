"""Models that transformers' own modules run over our cache: the logits of transformers, and what is
refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign_models import REFUSED, RUN, VOCAB_SIZE, foreign_model, save_foreign
from paging import Sequences
from random_models import CASES, WIDE_LONG_ROPE, random_model, tokens
from torch import Tensor

from specguide.drafts.tree import DraftTree
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder, load_decoder, read_config

LENGTH = 40


def load(folder: Path, **settings: Any) -> Decoder:
    return load_decoder(folder, model_impl="transformers", **settings)


@torch.inference_mode()
def in_chunks(
    decoder: Decoder, ids: Tensor, aux_layers: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Logits and aux hidden states of two sequences, of unequal chunks."""
    sequences = Sequences(2, LENGTH)
    cache = sequences.cache(decoder.config)
    chunks: list[tuple[Tensor, Tensor]] = []
    for counts in ([25, 7], [1, 1], [14, 32]):
        starts = list(sequences.lengths)
        context = sequences.extend(counts)
        places = [range(start, start + num) for start, num in zip(starts, counts, strict=True)]
        chunk = torch.cat([row[list(place)] for row, place in zip(ids, places, strict=True)])
        hidden, aux = decoder.forward(chunk, context, cache, aux_layers)
        chunks.append((torch.cat((decoder.logits(hidden), aux), -1), torch.tensor(counts)))
    rows = [[part.split(counts.tolist())[seq] for part, counts in chunks] for seq in range(2)]
    both = torch.stack([torch.cat(row) for row in rows])
    return both[..., :VOCAB_SIZE], both[..., VOCAB_SIZE:]


@pytest.mark.parametrize("name", RUN)
def test_logits_equal_transformers(name: str, tmp_path: Path) -> None:
    model = save_foreign(name, tmp_path, **RUN[name])
    ids = tokens(2, LENGTH)
    logits, aux = in_chunks(load(tmp_path), ids, (0, 2))
    with torch.inference_mode():
        expected = model(ids, output_hidden_states=True)
    assert expected.logits.std() > 0.01
    torch.testing.assert_close(logits, expected.logits, atol=1e-4, rtol=1e-4)
    states = torch.cat([expected.hidden_states[layer] for layer in (0, 2)], -1)
    torch.testing.assert_close(aux, states, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("rope", "settings"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, {}),
        (WIDE_LONG_ROPE, {}),
        ({**WIDE_LONG_ROPE, "original_max_position_embeddings": 64}, {"max_positions": LENGTH}),
    ],
)
def test_no_pass_changes_a_rope(
    rope: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    model = save_foreign("Arcee", tmp_path, rope_parameters={**rope, "rope_theta": 1e4})
    ids = tokens(2, LENGTH)
    with torch.inference_mode():
        expected = model(ids).logits
    logits, _ = in_chunks(load(tmp_path, **settings), ids)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def test_a_layer_without_aux_hidden_states_is_named(tmp_path: Path) -> None:
    save_foreign("Phi", tmp_path, **RUN["Phi"])
    decoder = load(tmp_path)
    beyond = decoder.config.num_layers + 1
    with pytest.raises(CheckpointError, match=f"no hidden states before layer {beyond}"):
        in_chunks(decoder, tokens(2, LENGTH), (0, beyond))


def test_logits_that_need_more_than_hidden_states_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of mixtures of experts do, which give their routers' logits beside."""
    save_foreign("Arcee", tmp_path)
    monkeypatch.setattr(
        "transformers.ArceeForCausalLM.forward",
        lambda self, input_ids, **others: self.model(input_ids, **others).router_logits,
    )
    with pytest.raises(CheckpointError, match="from hidden states alone: AttributeError"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["Phi", "Cohere2"])
@torch.inference_mode()
def test_every_node_of_a_tree_equals_its_path(name: str, tmp_path: Path) -> None:
    model = save_foreign(name, tmp_path, **RUN[name])
    decoder = load(tmp_path)
    tree = DraftTree((-1, 0, 0, 1, 1, 2))
    ids, drafts = tokens(1, 20)[0], tokens(tree.num_nodes)
    sequences = Sequences(1, LENGTH)
    cache = sequences.cache(decoder.config)
    decoder.forward(ids, sequences.extend([20]), cache)
    logits = decoder.logits(decoder.forward(drafts, sequences.tree(tree), cache)[0])
    for node in range(tree.num_nodes):
        path = torch.cat((ids, drafts[list(tree.path(node))]))
        expected = model(path[None]).logits[0, -1]
        torch.testing.assert_close(logits[node], expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["llama-tied", "phi3", "glm4-0414", "granite3", "olmo2", "smollm3", "ministral3"]
)
@pytest.mark.parametrize("quantization", [None, "fp8"])
def test_a_family_and_the_fallback_agree(
    name: str, quantization: str | None, tmp_path: Path
) -> None:
    family, settings = CASES[name]
    random_model(family, **settings).save_pretrained(tmp_path)
    ids = tokens(2, LENGTH)
    given = {} if quantization is None else {"quantization": quantization}
    native, foreign = (
        in_chunks(load_decoder(tmp_path, model_impl=impl, **given), ids)[0]
        for impl in ("native", "transformers")
    )
    close = 1e-3 if quantization is None else 0.05
    assert (native - foreign).norm() < close * foreign.norm()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_run_is_refused_by_name(name: str, tmp_path: Path) -> None:
    settings, message = REFUSED[name]
    save_foreign(name, tmp_path, **settings)
    with pytest.raises(CheckpointError, match=message):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"architectures": ["MyForCausalLM"], "auto_map": {"AutoModel": "m.M"}}, "remote code"),
        ({"architectures": ["T5Gemma"], "is_encoder_decoder": True}, "has an encoder"),
        ({"architectures": ["BertModel"]}, "is not a causal language model"),
    ],
)
def test_what_is_no_decoder_is_refused(
    fields: dict[str, object], message: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(CheckpointError, match=message):
        read_config(tmp_path, model_impl="transformers")


def test_auto_warns_and_native_refuses(tmp_path: Path) -> None:
    save_foreign("Phi", tmp_path)
    with pytest.warns(UserWarning, match="transformers' modules run it"):
        load_decoder(tmp_path)
    with pytest.raises(CheckpointError, match="architecture 'PhiForCausalLM' is unknown"):
        load_decoder(tmp_path, model_impl="native")
    with pytest.raises(InvalidParams, match="model_impl 'vllm' is unknown"):
        load_decoder(tmp_path, model_impl="vllm")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path)


def test_tensors_that_do_not_fit_are_named(tmp_path: Path) -> None:
    model = foreign_model("Phi")
    state = {name: it for name, it in model.state_dict().items() if "q_proj" not in name}
    state["model.layers.0.more"] = torch.zeros(3)
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(CheckpointError, match=r"missing weights: model\.layers\.0.*q_proj.*more"):
        load(tmp_path)


def test_linear_maps_of_another_kind_are_not_quantized(tmp_path: Path) -> None:
    save_foreign("Phi", tmp_path)
    decoder = load(tmp_path, quantization="fp8")
    kinds = {it.tensor.dtype for it in decoder.destinations().values()}
    assert torch.float8_e4m3fn in kinds
