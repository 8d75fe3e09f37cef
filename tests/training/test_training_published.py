"""A draft head for a model in a GGUF file: one command, whose head an engine takes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from gguf_files import Q, write_gguf
from paging import Sequences
from random_models import LLAMA, random_model

from specguide import LLM, SamplingParams
from specguide.bench.tasks import Task
from specguide.config import SpecConfig
from specguide.models import Decoder
from training.data.published_data import Sizes, answered
from training.data.published_prompts import TURN, Asked, prompts
from training.train.published import load_published, main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96}
    made = random_model(LLAMA, **sizes, tie_word_embeddings=True, max_position_embeddings=4096)
    return write_gguf(tmp_path_factory.mktemp("model") / "model.gguf", made, kind=Q.Q8_0)


@torch.no_grad()
def test_the_target_is_what_the_engine_serves(model: Path) -> None:
    decoder, ids = Decoder.load(model), torch.arange(20)
    sequences = Sequences(1, 20)
    cache = sequences.cache(decoder.config, decoder.dtype)
    logits = decoder.logits(decoder.forward(ids, sequences.extend([20]), cache)[0])
    expected = load_published(model, "cpu")(ids[None]).logits[0]
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def test_one_command_makes_a_head(model: Path, tmp_path: Path) -> None:
    command = (
        f"--target {model} --out {tmp_path / 'head'} --run {tmp_path / 'run'} --num-examples 4 "
        "--num-eval 2 --num-steps 2 --num-rows 1 --row-len 4000 --max-answer-len 12 --batch 4 "
        "--num-key-value-heads 2 --unroll-steps 2 --device cpu"
    )
    main(command.split())
    with pytest.raises(ValueError, match="of a run with other settings"):
        main(f"{command} --seed 5".split())
    found = json.loads((tmp_path / "run" / "eval.json").read_text())
    assert found["steps"] == 2 and 0 < found["bytes"] < 12e6 and found["num_tokens"] > 0
    outputs = []
    for spec in (None, SpecConfig("eagle3", model=tmp_path / "head", num_draft_tokens=2)):
        llm = LLM(model, spec=spec, max_batch_size=1)
        (output,) = llm.generate(["lazy dog"], SamplingParams(max_tokens=8, temperature=0.0))
        outputs.append(output.token_ids)
        llm.close()
    assert outputs[0] == outputs[1]


def test_prompts_are_of_many_kinds_and_the_same_for_a_seed() -> None:
    made = list(prompts(3, 400))
    assert made == list(prompts(3, 400)) and made != list(prompts(4, 400))
    turns = [one for one in made if one.task.messages[-1]["content"] == TURN]
    assert 0 < sum(one.is_guided for one in turns) < len(turns) < len(made)
    assert {one.temperature for one in made} == {0.0, 0.6, 1.0}
    assert any(one.task.tools and one.is_guided for one in made)
    assert all(one.task.schema is not None for one in made if one.is_guided)
    assert {one.temperature for one in prompts(3, 50, "left_out")} == {0.0}


def test_a_user_turn_is_the_model_s_own(model: Path) -> None:
    """A model of random weights says something, which stands where TURN stood."""
    conversation = Task("", ({"role": "user", "content": TURN},))
    asked = Asked(conversation, is_guided=False, temperature=0.0, seed=1)
    ((example,),) = answered(model, [lambda: iter([asked])], Sizes(3000, 8, 1, 1), math.inf)
    assert example.prompt_len > 0 and len(example.answer) <= 8


def test_nothing_to_measure_on_is_refused_at_once(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--target", str(model), "--out", str(tmp_path), "--num-eval", "0"])
    assert "--num-eval: it must be an integer ≥ 1, found '0'" in capsys.readouterr().err
