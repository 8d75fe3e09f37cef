"""What trains the target: chat format, tokenizer, packed rows, packed attention, optimizer, and the
shipped files."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
)

import specguide
from training.data import chat
from training.data.data_stream import MAX_DOCUMENT, PAD_ID, collate, make_row
from training.data.tasks import sample_task
from training.evaluate import fields as evaluate_fields
from training.heads import packed_attention
from training.train import target as train_target
from training.train.optimizer import MasterOptimizer, orthogonalize
from training.train.target import schedule

TARGET = Path(specguide.__file__).parent / "assets" / "small" / "target"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TARGET / "tokenizer.json"))


@pytest.fixture(scope="module")
def chat_tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(TARGET)


def test_rendering_equals_the_chat_template(chat_tokenizer: PreTrainedTokenizerBase) -> None:
    r = Random(8)
    for index in range(150):
        task = sample_task(r)
        if index % 5 == 0:
            task = chat.Task(task.text, task.answer, '{"type": "object"}', task.tools, "Be kind.")
        shown = chat_tokenizer.apply_chat_template(
            chat.messages_of(task),
            tools=list(task.tools) or None,
            json_schema=task.schema,
            add_generation_prompt=True,
            tokenize=False,
        )
        assert shown == chat.render_prompt(task)


def test_the_template_shows_tool_calls_as_the_model_writes_them(
    chat_tokenizer: PreTrainedTokenizerBase,
) -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": "é"}}}
    messages = [
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "2"},
    ]
    shown = chat_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    written = chat.call_text('{"name": "add", "arguments": {"a": 1, "b": "é"}}')
    assert (
        shown
        == f"<|begin|><|user|>add<|end|><|assistant|>{written}<|end|><|tool|>2<|end|><|assistant|>"
    )


def test_the_tokenizer_cuts_copied_text_the_same_way_everywhere(tokenizer: Tokenizer) -> None:
    def pieces(text: str) -> list[str]:
        return tokenizer.encode(text, add_special_tokens=False).tokens

    assert pieces("2024")[:4] == ["2", "0", "2", "4"]
    for value in ("Tamarvik Systems", "AB-1042", "anna.berg@nova.io", "12.50"):
        inside = " ".join(pieces(f'Name: {value}\n{{"name": "{value}", "n": 1}}'))
        assert inside.count(" ".join(pieces(value))) == 2
    assert [tokenizer.token_to_id(token) for token in chat.CONTROL_TOKENS] == list(range(7))
    assert tokenizer.encode("a").ids[0] == tokenizer.token_to_id(chat.BEGIN)
    r = Random(9)
    for _ in range(60):
        task = sample_task(r)
        text = chat.render_prompt(task) + task.answer + "\n\t€ naïve 漢字 \U0001f600"
        assert (
            tokenizer.decode(
                tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False
            )
            == text
        )


def test_markers_stay_visible_and_control_tokens_do_not(tokenizer: Tokenizer) -> None:
    text = chat.ASSISTANT + chat.call_text("{}") + chat.THINK_START + chat.THINK_END + chat.END
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids) == "<tool_call>\n{}\n</tool_call><think></think>"


def test_rows_depend_on_seed_and_index_alone(tokenizer: Tokenizer) -> None:
    one, two, other = (make_row(tokenizer, 1, index, 4096) for index in (7, 7, 8))
    assert (
        (one.ids == two.ids).all() and (one.answer == two.answer).all() and one.starts == two.starts
    )
    assert (one.ids != other.ids).any()


def test_collated_rows_train_on_answers_and_stop_at_documents(tokenizer: Tokenizer) -> None:
    rows = [make_row(tokenizer, 1, index, 4096) for index in (0, 1)]
    batch = collate(rows, 0.1)
    bounds = batch.bounds.unique().tolist()
    assert bounds[0] == 0 and bounds[-1] == 8192
    for start, end in itertools.pairwise(bounds):
        assert end - start <= MAX_DOCUMENT
        assert batch.positions[start:end].tolist() == list(range(end - start))
        assert batch.weights[end - 1] == 0.0
    trained = batch.targets[batch.weights == 1.0]
    end_id = tokenizer.token_to_id(chat.END)
    documents = sum(batch.ids[start] != PAD_ID for start in bounds[:-1])
    assert (trained == end_id).sum() == documents and not (
        batch.weights[batch.ids == PAD_ID] > 0
    ).any()


def test_packed_documents_do_not_see_each_other() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    packed = LlamaForCausalLM._from_config(config, attn_implementation=packed_attention.NAME).eval()
    plain = LlamaForCausalLM._from_config(config, attn_implementation="sdpa").eval()
    plain.load_state_dict(packed.state_dict())
    first, second = torch.randint(0, 50, (1, 9)), torch.randint(0, 50, (1, 5))
    positions = torch.cat([torch.arange(9), torch.arange(5)])[None]
    bounds = torch.tensor([0, 9, 14, 14, 14], dtype=torch.int32)
    with torch.inference_mode():
        together = packed(
            torch.cat([first, second], 1),
            position_ids=positions,
            use_cache=False,
            bounds=bounds,
            max_len=64,
        ).logits[0]
        apart = torch.cat([plain(first).logits[0], plain(second).logits[0]])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 16, 48), (3, 48, 16)])
def test_orthogonalize_makes_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    values = torch.linalg.svdvals(
        orthogonalize(torch.randn(shape, generator=torch.Generator().manual_seed(1))).float()
    )
    assert values.min() > 0.5 and values.max() < 1.5


def steps_of(model: torch.nn.Module, optimizer: MasterOptimizer, first: int, last: int) -> None:
    for step in range(first, last):
        inputs = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
        model(inputs).square().mean().backward()
        optimizer.step(1.0)


def test_an_optimizer_resumes_exactly() -> None:
    def fresh() -> tuple[torch.nn.Module, MasterOptimizer]:
        torch.manual_seed(2)
        model = torch.nn.ModuleDict({"layers": torch.nn.Linear(6, 6)})
        net = torch.nn.Sequential(model["layers"], torch.nn.Linear(6, 3))
        wrapped = torch.nn.Module()
        wrapped.add_module("layers", net[0])
        wrapped.add_module("head", net[1])
        wrapped.forward = net.forward  # type: ignore[method-assign]
        return wrapped, MasterOptimizer(wrapped, 1e-2, 1e-2)

    through, optimizer = fresh()
    steps_of(through, optimizer, 0, 6)
    half, early = fresh()
    steps_of(half, early, 0, 3)
    state = early.state_dict()
    resumed, late = fresh()
    late.load_state_dict(state)
    steps_of(resumed, late, 3, 6)
    for a, b in zip(through.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_the_schedule_warms_up_stays_and_decays() -> None:
    scales = [schedule(step, step / 100, 10, 0.4) for step in range(100)]
    assert scales[0] == 0.1 and scales[10:60] == [1.0] * 50 and 0 < scales[99] < 0.03
    assert all(a >= b for a, b in itertools.pairwise(scales[60:]))


def run_target(monkeypatch: pytest.MonkeyPatch, folder: Path, *options: object) -> None:
    arguments = [
        "--out",
        folder / "out",
        "--run",
        folder / "run",
        "--rows",
        1,
        "--row-len",
        512,
        "--workers",
        1,
    ]
    monkeypatch.setattr(sys, "argv", ["train_target", *map(str, [*arguments, *options])])
    train_target.main()


def test_training_begins_with_given_weights_goes_on_and_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_target(
        monkeypatch,
        tmp_path,
        "--from",
        TARGET,
        "--steps",
        2,
        "--until",
        1,
        "--muon-lr",
        0,
        "--adam-lr",
        0,
    )
    name = "model.layers.3.mlp.up_proj.weight"
    shipped, same = (
        load_file(folder / "model.safetensors") for folder in (TARGET, tmp_path / "out")
    )
    assert shipped.keys() == same.keys() and torch.equal(shipped[name], same[name])
    run_target(monkeypatch, tmp_path, "--from", TARGET, "--steps", 2)
    assert not torch.equal(load_file(tmp_path / "out" / "model.safetensors")[name], shipped[name])
    assert json.loads((tmp_path / "run" / "position.json").read_text()) | {"seconds": 0} == {
        "step": 2,
        "row": 2,
        "seconds": 0,
    }
    run_target(monkeypatch, tmp_path / "late", "--from", TARGET, "--minutes", 1e-9)
    assert json.loads((tmp_path / "late" / "run" / "position.json").read_text())["step"] == 0
    with pytest.raises(SystemExit, match="must be a model folder"):
        train_target.build_model(
            Tokenizer.from_file(str(TARGET / "tokenizer.json")), tmp_path, torch.device("cpu")
        )


def test_a_run_is_as_far_as_its_steps_or_its_time() -> None:
    args = argparse.Namespace(steps=100, warmup=10, decay=0.4, fresh_optimizer=False)
    assert train_target.learning_scale(args, 50, 0, 0.1) == 1.0
    assert train_target.learning_scale(args, 50, 0, 0.8) == pytest.approx(0.5)
    assert train_target.learning_scale(args, 90, 0, 0.1) == pytest.approx(0.25)


def test_the_shipped_folder_is_small_and_complete() -> None:
    sizes = {file.name: file.stat().st_size for file in TARGET.iterdir()}
    assert set(sizes) == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sizes["model.safetensors"] < 19e6 and sizes["tokenizer.json"] < 400e3
    config = json.loads((TARGET / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"] and config["tie_word_embeddings"]
    stored = json.loads((TARGET / "tokenizer_config.json").read_text())["chat_template"]
    assert stored == chat.CHAT_TEMPLATE


def test_the_shipped_model_reads_documents() -> None:
    """Unguided, a handful of samples; `training.evaluate.fields` measures it properly."""
    model = AutoModelForCausalLM.from_pretrained(TARGET, dtype=torch.float32)
    assert 9.0e6 < sum(p.numel() for p in model.parameters()) < 9.6e6
    generate = evaluate_fields.transformers_generate(TARGET, batch_size=12, max_tokens=250)
    results = evaluate_fields.evaluate(generate, 99, 6, ["known kinds", "left-out schemas"])
    assert results["known kinds"].accuracy >= 0.9
    assert results["left-out schemas"].accuracy >= 0.7
