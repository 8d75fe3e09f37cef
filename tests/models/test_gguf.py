"""GGUF files: their logits are those of transformers' reader, and what cannot be read is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gguf_files import Q, write_gguf
from paging import Sequences
from random_models import LLAMA, QWEN2, QWEN3, random_model
from tokenizers import Tokenizer as Backend
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
from typer.testing import CliRunner

from specguide import LLM, SamplingParams
from specguide.cli import app
from specguide.config import GuideConfig
from specguide.errors import CheckpointError, InvalidParams
from specguide.guide import Guide
from specguide.models import Decoder, read_config
from specguide.tokenizer import Tokenizer
from specguide.tokenizer.gguf import gguf_tokenizer

SIZES = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96}
IDS = torch.randint(0, 300, (60,), generator=torch.Generator().manual_seed(1))
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["a"],
    "additionalProperties": False,
}


@torch.inference_mode()
def logits_of(decoder: Decoder) -> Tensor:
    sequences = Sequences(1, len(IDS))
    cache = sequences.cache(decoder.config, decoder.dtype)
    return decoder.logits(decoder.forward(IDS, sequences.extend([len(IDS)]), cache)[0])


def llama(**settings: Any) -> PreTrainedModel:
    return random_model(LLAMA, **SIZES, **settings)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    return write_gguf(
        folder / "tiny.gguf", llama(tie_word_embeddings=True, max_position_embeddings=512)
    )


@pytest.mark.parametrize(
    ("family", "arch", "kind", "settings"),
    [
        (LLAMA, "llama", Q.F32, {}),
        (LLAMA, "llama", Q.Q8_0, {"tie_word_embeddings": True}),
        (LLAMA, "llama", Q.Q4_1, {}),
        (QWEN2, "qwen2", Q.Q4_0, {}),
        (QWEN3, "qwen3", Q.BF16, {"head_dim": 32}),
    ],
)
def test_logits_equal_those_of_transformers_reader(
    family: Any, arch: str, kind: Q, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = random_model(family, **SIZES, **settings)
    path = write_gguf(tmp_path / "model.gguf", model, arch, kind)
    read = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)
    left_over = model.load_state_dict(read["tensors"], strict=False)
    assert not left_over.unexpected_keys and set(left_over.missing_keys) <= {"lm_head.weight"}
    model.tie_weights()
    with torch.inference_mode():
        expected = model(IDS[None]).logits[0]
    torch.testing.assert_close(logits_of(Decoder.load(path)), expected, atol=1e-4, rtol=1e-4)


def test_the_rope_of_llama_3_1(tmp_path: Path) -> None:
    model = llama(rope_parameters=LLAMA3_ROPE, max_position_embeddings=512)
    path = write_gguf(tmp_path / "model.gguf", model)
    with torch.inference_mode():
        expected = model(IDS[None]).logits[0]
    torch.testing.assert_close(logits_of(Decoder.load(path)), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("stated", "rope"),
    [
        ({"type": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"factor": 2.0}, {"rope_type": "linear", "factor": 2.0}),
        (
            {"type": "yarn", "factor": 4.0, "original_context_length": 128, "finetuned": True},
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
        ),
    ],
)
def test_ropes_that_the_metadata_stretches(
    stated: dict[str, Any], rope: dict[str, Any], tmp_path: Path
) -> None:
    parameters = {"rope_theta": 10000.0, **rope}
    model = llama(rope_parameters=parameters, max_position_embeddings=512)
    extra = {f"rope__scaling__{name}": value for name, value in stated.items()}
    path = write_gguf(tmp_path / "model.gguf", model, **extra)
    with torch.inference_mode():
        expected = model(IDS[None]).logits[0]
    torch.testing.assert_close(logits_of(Decoder.load(path)), expected, atol=1e-4, rtol=1e-4)


def test_rope_factors_of_the_wrong_size_are_named(tmp_path: Path) -> None:
    model = llama(rope_parameters=LLAMA3_ROPE, head_dim=32)
    model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq[:8]
    path = write_gguf(tmp_path / "model.gguf", model)
    with pytest.raises(CheckpointError, match=r"must have 16 numbers, found 8"):
        Decoder.load(path)


def test_a_folder_is_its_only_file(file: Path, tmp_path: Path) -> None:
    assert read_config(file.parent) == read_config(file)
    for name in ("one.gguf", "two.gguf"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"several GGUF files; give the path of one of them: one\.gguf, two"
    ):
        Decoder.load(tmp_path)
    with pytest.raises(CheckpointError, match="there is no such file"):
        Decoder.load(tmp_path / "three.gguf")


def test_a_config_json_beside_it(file: Path, tmp_path: Path) -> None:
    """Repositories of GGUF files have one, of which a part is downloaded."""
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(CheckpointError, match=r"config\.json: architecture"):
        read_config(tmp_path)
    (tmp_path / file.name).write_bytes(file.read_bytes())
    assert read_config(tmp_path) == read_config(file)
    assert len(Tokenizer.from_folder(tmp_path)) == len(Tokenizer.from_folder(file))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"config\.json: architecture"):
        read_config(tmp_path)


def test_tokenizer_template_and_end_token(file: Path) -> None:
    tokenizer = Tokenizer.from_folder(file)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": '{"name": 1}'}])
    assert tokenizer.decode(ids, False) == '<|begin|>{"name": 1}<|end|><|begin|>'
    assert tokenizer.eos_token_ids == read_config(file).eos_token_ids
    assert tokenizer.decode(tokenizer.eos_token_ids, False) == "<|end|>"


@pytest.mark.parametrize("quantization", [None, "int4"])
def test_an_engine_serves_it(file: Path, quantization: str | None) -> None:
    params = SamplingParams(max_tokens=40, temperature=0.0, guide=Guide(json_schema=SCHEMA))
    prompts = ["The quick brown fox", "lazy dog"]
    outputs = []
    for spec in (None, "suffix"):
        guide = GuideConfig(max_whitespace=0)
        llm = LLM(file, spec=spec, guide=guide, quantization=quantization, max_batch_size=2)
        outputs.append([output.token_ids for output in llm.generate(prompts, params)])
        text = llm.tokenizer.decode(outputs[-1][0])
        llm.close()
        assert 0 <= json.loads(text)["a"] <= 99
    assert outputs[0] == outputs[1]


def test_the_command_takes_a_file(file: Path) -> None:
    done = CliRunner().invoke(
        app, ["generate", "--model", str(file), "--max-tokens", "4", "--regex", "[0-9]{2}"], "x"
    )
    assert done.exit_code == 0 and done.stdout.strip().isdigit(), (done.output, done.exception)


@pytest.mark.parametrize(
    ("arch", "extra", "message"),
    [
        ("stablelm", {}, "GGUF architecture 'stablelm' is not supported; supported: llama, qwen2"),
        ("llama", {"expert_count": 8}, "'llama.expert_count' 8 is not supported"),
        ("llama", {"rope__scaling__type": "su"}, "rope.scaling.type 'su' is not supported"),
        ("llama", {"attention__sliding_window": 7}, "'llama.attention.sliding_window' 7 is not"),
        ("llama", {"rope__dimension_count": 8}, "heads of several sizes"),
    ],
)
def test_what_would_compute_something_else_is_refused(
    arch: str, extra: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "model.gguf", llama(num_hidden_layers=1), arch, **extra)
    with pytest.raises(CheckpointError, match=message):
        Decoder.load(path)


def test_tensors_without_a_place_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("specguide.models.gguf._OF_LAYER", {"attn_norm": "input_layernorm"})
    path = write_gguf(tmp_path / "model.gguf", llama(num_hidden_layers=1))
    with pytest.raises(
        CheckpointError, match=r"weights that the model does not have: blk\.0\.attn_k\.weight"
    ):
        Decoder.load(path)


@pytest.mark.parametrize("length", [0, 3, 20, 4000, -5])
def test_a_damaged_file_is_named(file: Path, length: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(file.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"cut\.gguf: cannot be read as GGUF"):
        Decoder.load(path)


def test_the_missing_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    for load in (read_config, Decoder.load, Tokenizer.from_folder):
        with pytest.raises(CheckpointError, match=r'pip install "specguide\[gguf\]"'):
            load(file)


def test_an_unknown_quantization(file: Path) -> None:
    with pytest.raises(InvalidParams, match="quantization 'int3' is unknown"):
        read_config(file, "int3")


def test_a_byte_level_vocabulary_is_read_as_such(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers 5.17 gives it SentencePiece's steps, too."""
    usual = Tokenizer.from_folder(file)
    state = json.loads(gguf_tokenizer(file)[0].to_str())
    steps = [
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    ]
    state["decoder"] = {"type": "Sequence", "decoders": [*steps, state["decoder"]]}
    state["model"] |= {"byte_fallback": True, "fuse_unk": True, "unk_token": "a"}
    told = SimpleNamespace(backend_tokenizer=Backend.from_str(json.dumps(state)))
    monkeypatch.setattr(PreTrainedTokenizerFast, "from_pretrained", lambda *_, **__: told)
    copy = tmp_path / file.name
    copy.write_bytes(file.read_bytes())
    other = Tokenizer.from_folder(copy)
    assert other.vocabulary() == usual.vocabulary()
    for text in ("lazy dog\n 12", "\u2581 \u20ac <0x0A>"):
        assert other.encode(text) == usual.encode(text)
        assert other.decode(other.encode(text)) == usual.decode(usual.encode(text))
