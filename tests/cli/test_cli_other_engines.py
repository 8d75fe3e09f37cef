"""Options by the names that they have in vLLM and SGLang: taken where they change nothing, else
refused with what to do instead."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from specguide.cli import app, main
from specguide.cli.other_engines import KnowsOtherEngines
from specguide.other_engines import OTHER_OPTIONS
from specguide.server import supervisor


def _given(*args: str) -> dict[str, Any]:
    """What a command with three options of its own is called with."""
    given: dict[str, Any] = {}
    small = typer.Typer()

    @small.command(cls=KnowsOtherEngines)
    def run(text: str = "", seed: int = 0, port: int = 0) -> None:
        given.update(text=text, seed=seed, port=port)

    small(list(args), standalone_mode=False)
    return given


@pytest.mark.parametrize(
    "written",
    [
        "--trust-remote-code --port 5",
        "--enable-prefix-caching --swap-space 4 --port 5",
        "--port 5 --load-format=auto --disable-log-stats",
        "--no-enable-lora --port=5 --generation-config auto",
        "-O3 --compilation-config {} --uvicorn-log-level warning --max-logprobs 20 --port 5",
        "--attention-backend fa3 --cuda-graph-bs 1 2 4 --enable-cache-report --port 5 --nnodes 1",
        "--async-scheduling --limit-mm-per-prompt.image 0 --schedule-policy lpm --port 5",
    ],
)
def test_what_changes_nothing_is_taken(written: str) -> None:
    assert _given(*written.split()) == {"text": "", "seed": 0, "port": 5}


def test_own_options_stay_what_they_are() -> None:
    assert _given("--seed", "7", "--text", "--") == {"text": "--", "seed": 7, "port": 0}
    assert _given("--max_logprobs", "5", "--no_enable_lora", "--port=5")["port"] == 5
    assert _given("--text=--max-num-seqs") == {"text": "--max-num-seqs", "seed": 0, "port": 0}


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("--max-num-seqs 4", "--max-num-seqs is not an option here: take --max-batch-size"),
        ("--max-num-seqs=4", "take --max-batch-size"),
        ("--max_seq_len 4096", "--max-seq-len is not an option here: take --max-model-len"),
        ("-tp 2", "take --tensor-parallel-size"),
        ('--speculative-config {"method":"ngram"}', "take --spec-method, --head and"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching is not an option here: it is"),
        ("--tool-call-parser hermes", "take --tool-format"),
        ("--load-format gguf", "a model is a folder"),
        ("--seed 0", "requests have a seed each"),
        ("--generation-config vllm", "take --sampling-defaults openai"),
        (
            "--structured-outputs-config.backend xgrammar",
            "take --guide-backend or --max-whitespace",
        ),
        ('--default-chat-template-kwargs {"a":1}', "as chat_template_kwargs"),
        ("--scheduling-policy priority", "the higher one runs first"),
        ("--guided-decoding-disable-any-whitespace", "take --max-whitespace 0"),
        ("--max-logprobs 50", "a request may have up to 20"),
        ("--speculative-algorithm EAGLE3", "take --spec-method, --head and"),
        (
            "--tp-size 2 --context-length=9",
            "take --tensor-parallel-size\n--context-length is not an",
        ),
    ],
)
def test_the_rest_is_refused_with_what_to_do(
    written: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["specguide", "serve", *written.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "model", "names"),
    [
        ("--served-model-name a", None, ("a",)),
        ("--served-model-name a b --port 5", None, ("a", "b")),
        ("--served-model-name=a b b --served-model-alias c", None, ("a", "c", "b")),
        ("FOLDER --served-model-name a b", "FOLDER", ("a", "b")),
        ("--served-model-name a b --model FOLDER", "FOLDER", ("a", "b")),
        ("--trust-remote-code --served-model-name a FOLDER", "FOLDER", ("a",)),
        ("FOLDER --served-model-name a FOLDER", "FOLDER", ("a", "FOLDER")),
        ("FOLDER --served-model-name a --max_model_len 9 --api_key=a_b", "FOLDER", ("a",)),
    ],
)
def test_a_served_model_has_several_names(
    written: str,
    model: str | None,
    names: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = []

    class Noted:
        def __init__(self, plan: Any, tell: Any) -> None:
            plans.append(plan)

        def run(self) -> int:
            return 0

    monkeypatch.setattr(supervisor, "Supervisor", Noted)
    folder = str(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["specguide", "serve", *written.replace("FOLDER", folder).split()]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    (plan,) = plans
    assert plan.engine.model == (model and tmp_path)
    assert set(plan.server.model_names) == {name.replace("FOLDER", folder) for name in names}
    assert plan.server.model_name == "a"


def test_none_of_them_is_an_option_of_ours() -> None:
    command: Any = typer.main.get_command(app)
    ours = {parameter.name for parameter in command.commands["serve"].params}
    assert not ours & set(OTHER_OPTIONS)
    remedies = " ".join(option.remedy or "" for option in OTHER_OPTIONS.values())
    named = {word[1:-1] for word in re.findall(r"\{\w+\}", remedies)}
    assert named - {"spec"} <= ours
