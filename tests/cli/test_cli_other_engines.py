"""Options by the names that they have in vLLM and SGLang: taken where they change nothing, else
refused with what to do instead."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from specguide.cli import app, main
from specguide.cli.options_file import with_file
from specguide.cli.other_engines import KnowsOtherEngines
from specguide.cli.whole_numbers import whole_number
from specguide.errors import InvalidParams
from specguide.other_engines import OTHER_BENCH_OPTIONS, OTHER_OPTIONS
from specguide.server.processes import supervisor


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
        "--disable-cascade-attn --no-use-tqdm-on-load --moe-backend triton --port 5",
        "--enable-server-load-tracking --port 5",
        "--bucket-time-to-first-token 1 2 --decode-attention-backend fa3 --base-gpu-id 0 --port 5",
        "--async-scheduling --schedule-policy lpm --port 5",
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
        ("--max-num-seqs 4", "--max-num-seqs is not an option here: use --max-batch-size"),
        ("--max-num-seqs=4", "use --max-batch-size"),
        ("--max_seq_len 4096", "--max-seq-len is not an option here: use --max-model-len"),
        ("-tp 2", "use --tensor-parallel-size"),
        ('--speculative-config {"method":"ngram"}', "use --spec-method, --head and"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching is not an option here: it is"),
        ("--tool-call-parser hermes", "use --tool-format"),
        ("--load-format gguf", "a model is read from a folder"),
        ("--seed 0", "each request has its own seed"),
        ("--generation-config vllm", "use --sampling-defaults openai"),
        (
            "--structured-outputs-config.backend xgrammar",
            "use --guide-backend or --max-whitespace",
        ),
        ('--default-chat-template-kwargs {"a":1}', "as chat_template_kwargs"),
        ("--scheduling-policy priority", "the higher one runs first"),
        ("--guided-decoding-disable-any-whitespace", "use --max-whitespace 0"),
        ("--data-parallel-size-local 2", "specguide serve --replicas"),
        ('--allowed-methods ["GET"]', "web pages may always send GET and POST"),
        ("--max-logprobs 50", "a request may ask for at most 20"),
        ("--base-gpu-id 2", "the variable CUDA_VISIBLE_DEVICES"),
        ("--fastapi-root-path /a", "use --root-path"),
        ("--limit-mm-per-prompt.image 0", "set --limit-images-per-prompt"),
        ("--language-model-only", "set --max-image-tokens to 0"),
        ('--mm-processor-kwargs {"a":1}', "preprocessor_config.json"),
        ("--speculative-accept-threshold-single 0.5", "verified exactly"),
        ("--speculative-algorithm EAGLE3", "use --spec-method, --head and"),
        (
            "--tp-size 2 --context-length=9",
            "use --tensor-parallel-size\n--context-length is not an",
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


@pytest.fixture
def plan_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """What `specguide serve` comes to with some arguments, without being run."""
    plans: list[Any] = []

    class Noted:
        def __init__(self, plan: Any, tell: Any) -> None:
            plans.append(plan)

        def run(self) -> int:
            return 0

    def planned(written: str) -> Any:
        monkeypatch.setattr(supervisor, "Supervisor", Noted)
        monkeypatch.setattr(sys, "argv", ["specguide", "serve", *written.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code in (0, None)
        return plans.pop()

    return planned


def test_options_that_are_called_and_written_as_vllm_has_them(
    plan_of: Callable[[str], Any],
) -> None:
    plan = plan_of(
        "--max-model-len 8k --kv-cache-memory-bytes 1.5K --kv-cache-dtype fp8_e4m3 "
        '--allowed-origins ["https://a.example","null"] --allowed-origins https://b.example '
        "--allow-credentials --disable-uvicorn-access-log --enable-log-requests "
        "--exclude-tools-when-tool-choice-none --no-trust-request-chat-template"
    )
    engine, server = plan.engine, plan.server
    assert (engine.max_model_len, engine.cache.kv_cache_memory_bytes) == (8000, 1536)
    assert engine.cache.kv_cache_dtype == "fp8_e4m3"
    origins = ("https://a.example", "null", "https://b.example")
    assert server.exposure.allowed_origins == origins
    assert server.exposure.allow_credentials and server.disable_uvicorn_access_log
    assert server.exclude_uncallable_tools and server.log_requests
    assert not server.allow_client_templates
    assert plan_of("--max-model-len auto").engine.max_model_len == -1


@pytest.mark.parametrize("written", ["8kk", "x", "0.0001k", "k", "1.5", ""])
def test_what_is_no_whole_number_is_refused(written: str) -> None:
    with pytest.raises(typer.BadParameter, match="not a whole number"):
        whole_number(written)


@pytest.mark.parametrize(
    ("written", "number"),
    [("8192", 8192), ("8k", 8000), ("8K", 8192), ("25.6k", 25_600), ("1M", 1 << 20), ("-1", -1)],
)
def test_whole_numbers(written: str, number: int) -> None:
    assert whole_number(written) == number


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
    plan_of: Callable[[str], Any],
) -> None:
    folder = str(tmp_path)
    plan = plan_of(written.replace("FOLDER", folder))
    assert plan.engine.model == (model and tmp_path)
    assert set(plan.server.model_names) == {name.replace("FOLDER", folder) for name in names}
    assert plan.server.model_name == "a"


def test_options_may_be_in_a_file(plan_of: Callable[[str], Any], tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(
        f"model: {tmp_path}\nport: 5\nmax_model_len: 8k\nserved-model-name: [m, n]\n"
        "trust-remote-code: true\nlog-requests: true\nmixed-iterations: false\n"
        "enforce-eager: false\nssl-keyfile:\n"
        "allowed-origins: [https://a.example, 'null']\n"
    )
    plan = plan_of(f"--config {file} --port 6 --no-log-requests")
    assert plan.engine.model == tmp_path and plan.engine.max_model_len == 8000
    assert not plan.engine.mixed_iterations and not plan.engine.enforce_eager
    assert plan.server.port == 6 and not plan.server.log_requests
    assert set(plan.server.model_names) == {"m", "n"}
    assert plan.server.exposure.allowed_origins == ("https://a.example", "null")
    assert plan_of(f"--port 6 --config={file}").server.port == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max-num-seqs: 4\nspeculative-config: {method: ngram}", "use --max-batch-size"),
        ("- port", "must have options in YAML, as max-model-len: 4096"),
        ("a: [", "cannot be read"),
        (None, "cannot be read: [Errno 2]"),
    ],
)
def test_a_file_of_other_options_is_refused(
    text: str | None,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "options.yaml"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["specguide", "serve", "--config", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and told in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--config"], ["--config="]])
def test_a_file_that_is_not_named_is_asked_for(args: list[str]) -> None:
    with pytest.raises(InvalidParams, match="--config needs a file"):
        with_file(["--port", "6", *args], ())


def test_keys_are_many_and_flags_may_be_denied(
    plan_of: Callable[[str], Any], tmp_path: Path
) -> None:
    plan = plan_of(
        f"--api-key a b --served-model-name m n {tmp_path} --strict-fields --no-strict_fields "
        "--no-enforce-eager --log-requests"
    )
    assert tuple(plan.server.api_keys) == ("a", "b")
    assert plan.engine.model == tmp_path and set(plan.server.model_names) == {"m", "n"}
    assert not plan.server.strict_fields and not plan.engine.enforce_eager
    assert plan.server.log_requests
    plan = plan_of(f"--api-key a b {tmp_path}")
    assert tuple(plan.server.api_keys) == ("a", "b") and plan.engine.model == tmp_path


def test_a_key_that_is_not_read_leaves_no_server_open(
    plan_of: Callable[[str], Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    assert tuple(plan_of("--api-key a").server.api_keys) == ("a",)
    monkeypatch.setattr(sys, "argv", ["specguide", "serve"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "call it SPECGUIDE_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("SPECGUIDE_API_KEY", "b")
    assert tuple(plan_of("").server.api_keys) == ("b",)


def test_a_load_as_others_describe_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = (
        "--backend openai-chat --base-url http://127.0.0.1:1 --num-prompts 10 --tokenizer x "
        "--random-input-len=100 --request-rate inf --ignore-eos --max-concurrency 4 --save-result"
    )
    monkeypatch.setattr(sys, "argv", ["specguide", "bench", "serve", *written.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    advised = ("--api", "--url", "--requests", "--prompt-len", "--concurrency", "--output")
    assert ended.value.code == 2 and told.count("is not an option here") == len(advised)
    assert all(f"use {option}" in told for option in advised)


@pytest.mark.parametrize(
    ("path", "others"), [(["serve"], OTHER_OPTIONS), (["bench", "serve"], OTHER_BENCH_OPTIONS)]
)
def test_none_of_them_is_an_option_of_ours(path: list[str], others: Any) -> None:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    ours = {parameter.name for parameter in command.params}
    assert not ours & set(others)
    remedies = " ".join(option.remedy or "" for option in others.values())
    named = {word[1:-1] for word in re.findall(r"\{\w+\}", remedies)}
    assert named - {"spec"} <= ours
