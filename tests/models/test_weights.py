"""Reading checkpoints: every weight in its place, every fault named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from specguide.errors import CheckpointError
from specguide.models import Decoder
from specguide.models.stored_tensors import open_weights, read
from specguide.models.weights import weight_files
from specguide.tokenizer import Tokenizer

Weights = dict[str, Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path, tied=False)


def save(folder: Path, tied: bool) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=tied,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def rewrite(folder: Path, change: Callable[[Weights], object]) -> Weights:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    return weights


def down_weight(decoder: Decoder) -> Tensor:
    return decoder.layers[1].feed_forward.down.weights.weight


def test_fused_parts_lie_in_order(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    layer = Decoder.load(folder).layers[1]
    prefix = "model.layers.1."
    qkv = torch.cat([weights[f"{prefix}self_attn.{part}_proj.weight"] for part in "qkv"])
    gate_up = torch.cat([weights[f"{prefix}mlp.{part}_proj.weight"] for part in ("gate", "up")])
    assert torch.equal(layer.attention.qkv.weights.weight, qkv)
    assert torch.equal(layer.feed_forward.gate_up.weights.weight, gate_up)
    assert torch.equal(
        layer.attention.out.weights.weight, weights[f"{prefix}self_attn.o_proj.weight"]
    )


def test_missing_and_left_over_weights_are_named(folder: Path) -> None:
    def change(weights: Weights) -> None:
        del weights["model.layers.1.self_attn.k_proj.weight"]
        del weights["lm_head.weight"]
        weights["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(16)

    rewrite(folder, change)
    with pytest.raises(CheckpointError) as caught:
        Decoder.load(folder)
    message = str(caught.value)
    assert "missing weights: lm_head.weight, model.layers.1.self_attn.k_proj.weight" in message
    assert "weights that the model does not have: model.layers.0.self_attn.q_proj.bias" in message
    assert str(folder) in message


def test_an_output_matrix_that_is_the_embeddings_is_to_be_stated(folder: Path) -> None:
    rewrite(folder, lambda weights: weights.pop("lm_head.weight"))
    with pytest.raises(CheckpointError, match=r"missing .*; .* add 'tie_word_embeddings': true"):
        Decoder.load(folder)


def test_folders_of_another_form_are_told_by_it(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match="is not a folder; give the folder that holds this file"
    ):
        Decoder.load(folder / "model.safetensors")
    for name, message in (
        ("snapshots", "give the folder within its 'snapshots'"),
        ("params.json", "download the model in Hugging Face's format"),
    ):
        (tmp_path / name / name).mkdir(parents=True)
        with pytest.raises(CheckpointError, match=message):
            Decoder.load(tmp_path / name)


def test_many_faults_are_counted(folder: Path) -> None:
    rewrite(
        folder, lambda weights: [weights.pop(name) for name in list(weights) if "layers" in name]
    )
    with pytest.raises(CheckpointError, match="and 13 more"):
        Decoder.load(folder)


def test_wrong_shapes_tell_both(folder: Path) -> None:
    rewrite(folder, lambda weights: weights.update({"model.norm.weight": torch.zeros(17)}))
    with pytest.raises(
        CheckpointError, match=r"model\.norm\.weight \(expected \[16\], found \[17\]\)"
    ):
        Decoder.load(folder)


def test_integer_weights_are_refused(folder: Path) -> None:
    rewrite(
        folder,
        lambda weights: weights.update(
            {"model.layers.0.mlp.up_proj.weight": torch.zeros(24, 16, dtype=torch.int8)}
        ),
    )
    with pytest.raises(
        CheckpointError, match=r"cannot be converted: model\.layers\.0\.mlp\.up_proj\.weight \(I8\)"
    ):
        Decoder.load(folder)


def test_rotary_buffers_may_be_left_over(folder: Path) -> None:
    rewrite(
        folder,
        lambda weights: weights.update(
            {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)}
        ),
    )
    Decoder.load(folder)


def test_a_tied_head_may_be_there_if_it_is_the_same(tmp_path: Path) -> None:
    save(tmp_path, tied=True)
    weights = rewrite(
        tmp_path,
        lambda weights: weights.update(
            {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}
        ),
    )
    decoder = Decoder.load(tmp_path)
    assert torch.equal(decoder.lm_head.weights.weight, weights["lm_head.weight"])
    rewrite(tmp_path, lambda weights: weights["lm_head.weight"].add_(1.0))
    with pytest.raises(
        CheckpointError, match=r"has 'tie_word_embeddings': true, but lm_head\.weight is not equal"
    ):
        Decoder.load(tmp_path)


def test_truncated_files_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for length in (len(data) - 1, len(data) // 2, 100, 4, 0):
        path.write_bytes(data[:length])
        with pytest.raises(
            CheckpointError, match=r"model\.safetensors: cannot be read as safetensors"
        ):
            Decoder.load(folder)


def test_shards(folder: Path) -> None:
    whole = Decoder.load(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, held in shards.items():
        save_file({name: weights[name] for name in held}, folder / shard)
    index = {"weight_map": {name: shard for shard, held in shards.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert torch.equal(down_weight(Decoder.load(folder)), down_weight(whole))

    save_file({name: weights[name] for name in names[:2]}, folder / "b.safetensors")
    with pytest.raises(
        CheckpointError, match=f"missing weights: .*weights that are there twice: {names[0]}"
    ):
        Decoder.load(folder)
    (folder / "b.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"names files that are not in the folder: b\.safetensors"
    ):
        Decoder.load(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    with pytest.raises(
        CheckpointError, match=r"index\.json: cannot be read as an index of weights"
    ):
        Decoder.load(folder)


def test_an_index_that_transformers_left_behind(folder: Path) -> None:
    """It saved a model in one file where there were shards before."""
    index = {"weight_map": {"norm.weight": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weight_files(folder) == (folder / "model.safetensors",)
    (folder / "model-00001-of-00001.safetensors").touch()
    assert weight_files(folder) == (folder / "model-00001-of-00001.safetensors",)


def test_folders_without_weights(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: is not a folder"):
        Decoder.load(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"has neither model\.safetensors nor model\.safetensors\.index\.json"
    ):
        Decoder.load(folder)
    (folder / "pytorch_model-00001-of-00002.bin").touch()
    with pytest.raises(CheckpointError, match="save_pretrained makes them from pickled files"):
        Decoder.load(folder)


def test_shards_without_an_index(folder: Path) -> None:
    """The same weights under Mistral's names beside them are left aside."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")
    names = sorted(weights)
    for number, part in enumerate((names[:3], names[3:]), start=1):
        part_path = folder / f"model-0000{number}-of-00002.safetensors"
        save_file({name: weights[name] for name in part}, part_path)
    assert [path.name[:11] for path in weight_files(folder)] == ["model-00001", "model-00002"]
    Decoder.load(folder)
    part_path.unlink()
    with pytest.raises(CheckpointError, match="missing weights"):
        Decoder.load(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_file_that_git_has_not_fetched_is_said_to_be_one(name: str, folder: Path) -> None:
    (folder / name).write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:5f\nsize 9\n"
    )
    with pytest.raises(CheckpointError, match=f"{name}: is a Git LFS pointer"):
        Tokenizer.from_folder(folder) if name == "tokenizer.json" else Decoder.load(folder)


def test_pickled_weights_hold_tensors_only(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"x": torch.ones(3)}, path)
    assert weight_files(tmp_path, pickle=True) == (path,)
    with open_weights(path) as stored:
        assert (stored["x"].shape, stored["x"].dtype) == ((3,), "float32")
        assert torch.equal(read(stored["x"]), torch.ones(3))
    faults: list[Callable[[], object]] = [
        lambda: torch.save({"x": 3}, path),
        lambda: torch.save({"x": Path("y")}, path),
        lambda: path.write_bytes(b"not a checkpoint"),
        lambda: path.write_bytes(path.read_bytes()[:5]),
    ]
    for make_fault in faults:
        make_fault()
        with (
            pytest.raises(CheckpointError, match="cannot be read as a pickled file of tensors"),
            open_weights(path),
        ):
            pass
