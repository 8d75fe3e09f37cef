"""The command line on the shipped model."""

from __future__ import annotations

import errno
import importlib
import inspect
import io
import json
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
from command_line import COMMAND, PERSON, TEXT, in_a_process, specguide
from lora_adapters import adapter
from tokenizer_subjects import SHIPPED
from typer.testing import CliRunner

from specguide.cli import app, main
from specguide.cli.chat import chat
from specguide.cli.config_options import (
    CACHE,
    ENGINE,
    GUIDE,
    SPEC,
    Without,
    engine_config,
    field_words,
)
from specguide.cli.generate import generate
from specguide.cli.serve import _tell, serve
from specguide.config import CacheConfig, EngineConfig, GuideConfig, SpecConfig, TransferConfig
from specguide.drafts.methods import method_names
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidParams
from specguide.params import SamplingParams
from specguide.server.config import Exposure, ServerConfig


def test_the_release_is_told(monkeypatch):
    for release, told in ("1.2.3", "1.2.3"), (None, "a checkout that is not installed"):
        monkeypatch.setattr("specguide.cli.installed_version", lambda release=release: release)
        said = CliRunner().invoke(app, ["--version"])
        assert said.exit_code == 0 and said.output == f"{told}\n"
    monkeypatch.setattr("specguide.installed_version", lambda: "1.2.3")
    assert importlib.import_module("specguide").__version__ == "1.2.3"


def test_generate_reads_standard_input_and_writes_json():
    done = in_a_process("generate", "--schema", PERSON, "--json-stats", stdin=TEXT)
    assert done.returncode == 0, done.stderr
    answer, figures = json.loads(done.stdout), json.loads(done.stderr.splitlines()[-1])
    jsonschema.validate(answer, json.loads(Path(PERSON).read_text()))
    assert answer["name"] == "Maria Keller" and answer["age"] == 34
    assert figures["finish_reason"] == "stop" and figures["acceptance_length"] > 1.5
    assert (
        figures["output_tokens"]
        == sum(n * (a + 1) for a, n in enumerate(figures["accepted_histogram"])) + 1
    )


def test_speculation_does_not_change_the_output():
    args = ["generate", "--schema", PERSON, TEXT]
    fast, plain = specguide(*args), specguide(*args, "--no-spec")
    assert fast.stdout == plain.stdout and "acceptance length 1.00" in plain.stderr


def test_a_regex_and_a_grammar_guide(tmp_path):
    assert specguide("generate", "--regex", "(yes|no)!", "is it?").stdout in ("yes!\n", "no!\n")
    grammar = tmp_path / "digits.ebnf"
    grammar.write_text('root ::= "<" [0-9] [0-9] ">"')
    out = specguide("generate", "--grammar", str(grammar), "a number").stdout.strip()
    assert len(out) == 4 and out[0] == "<" and out[1:3].isdigit()


def test_an_adapter_answers(tmp_path):
    module = f"a={adapter(tmp_path / 'a', SHIPPED)}"
    asked = ("generate", "--max-tokens", "8", "--no-spec", "--lora-modules", module, "The bridge")
    plain, adapted = specguide(*asked), specguide(*asked, "--lora", "a")
    assert plain.returncode == adapted.returncode == 0, adapted.stderr
    assert plain.stdout != adapted.stdout


def test_a_model_without_a_chat_template_continues_the_text(tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).symlink_to(SHIPPED / name)
    done = specguide("generate", "--model", str(tmp_path), "--regex", "yes|no", "is it?")
    assert done.stdout in ("yes\n", "no\n") and "has no chat template" in done.stderr


@pytest.mark.parametrize("command", [["generate"], ["chat", "--max-tokens", "4"]], ids=str)
def test_an_input_in_another_encoding_is_one_line_and_exit_code_2(command, monkeypatch, capsys):
    strict = io.TextIOWrapper(io.BytesIO("café\n".encode("latin-1")), "utf-8", errors="strict")
    monkeypatch.setattr(sys, "stdin", strict)
    monkeypatch.setattr(sys, "argv", ["specguide", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert "can't decode byte 0xe9" in told and "encoding of the locale" in told


def test_a_timeline_is_written(tmp_path):
    done = specguide(
        "generate", "--max-tokens", "8", "--trace", str(tmp_path / "out.json"), "hello"
    )
    assert done.returncode == 0, done.stderr
    names = {
        event["name"] for event in json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    }
    assert {"target forward", "callback 3", "schedule"} <= names
    done = specguide("generate", "--max-tokens", "8", "--trace", str(tmp_path), "hello")
    assert done.returncode == 2 and "cannot write" in done.stderr and not done.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--schema", "nowhere.json", "x"], "cannot read nowhere.json"),
        (["--schema", __file__, "x"], "json_schema is not valid JSON"),
        (["--regex", "a", "--grammar", __file__, "x"], "exactly one"),
        (["--temperature", "-1", "x"], "temperature"),
        (["--spec-method", "guessing", "x"], f"known: {', '.join(method_names())}"),
        (["--spec-method", "draft_model", "x"], "on the command line --head FOLDER"),
        (["--model", "/nowhere", "x"], "/nowhere"),
        ([""], "empty"),
        (["--max-tokens", "0", "x"], "--max-tokens must be"),
        (["--schema", PERSON, "--max-guide-values", "3", "x"], "more than --max-guide-values (3)"),
        (["--spec-method", "ngram", "--head", ".", "x"], "leave --head out"),
        (["x " * 5000], "context"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(args, words):
    done = specguide("generate", *args)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, (
        done.stderr
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--tool-format", "nope"], "tool format 'nope' is unknown; known: apertus"),
        (["--reasoning-format", "nope"], "reasoning format 'nope' is unknown; known: none"),
        (["--api-servers", "0"], "--api-servers must be ≥ 1, found 0"),
        (["--max-connections", "0"], "--max-connections must be ≥ 1, found 0"),
        (["--drain-s", "-1"], "--drain-s must be ≥ 0, found -1.0"),
        (["--max-waiting", "-1"], "--max-waiting must be ≥ 0, found -1"),
        (["--body-timeout-s", "nan"], "--body-timeout-s must be ≥ 0, found nan"),
        (["--max-replicas", "3"], "--max-replicas needs --replicas beside it"),
        (["--kv-transfer-timeout-s", "3"], "--kv-transfer-timeout-s needs --role beside it"),
        ([".", "--num-forced-tokens", "3"], "--num-forced-tokens needs --spec-method or --head"),
    ],
)
def test_a_mistake_in_serve_is_told_before_it_listens(args, words, monkeypatch):
    monkeypatch.setattr("specguide.server.processes.supervisor.Supervisor.run", pytest.fail)
    with pytest.raises(InvalidParams, match=words):
        CliRunner().invoke(app, ["serve", *args], catch_exceptions=False)


def test_doctor_finds_what_is_needed():
    done = in_a_process("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "grammar backend llguidance",
        "grammar backend xgrammar",
        "shipped model",
        "CUDA driver",
    ):
        assert words in done.stdout


def test_doctor_without_a_temporary_folder_says_to_give_one(monkeypatch):
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1 and "→ set TMPDIR to a folder that can be written" in done.output
    assert "reinstall" not in done.output


@pytest.mark.parametrize("args", [[], ["generate"], ["chat"], ["serve"], ["bench", "serve"]])
def test_help_needs_no_torch(args):
    code = (
        f"import sys; sys.modules['torch'] = None; sys.argv[1:] = {[*args, '--help']}; "
        "import specguide.__main__"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Usage" in done.stdout, done.stderr


def test_forced_tokens_alone():
    done = specguide(
        "generate",
        "--schema",
        PERSON,
        "--spec-method",
        "grammar",
        "--num-forced-tokens",
        "4",
        "--json-stats",
        TEXT,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["drafts_accepted"]["forced"] > 0
    refused = specguide("generate", "--spec-method", "grammar", TEXT)
    assert refused.returncode == 2 and "--num-forced-tokens must be 1 to 32" in refused.stderr


def test_a_tree_of_drafts():
    args = ("generate", "--schema", PERSON, "--json-stats", TEXT)
    chain, tree = (
        json.loads(specguide(*args, *more).stderr.splitlines()[-1])
        for more in ((), ("--tree", "4,4,16"))
    )
    assert tree["num_iterations"] <= chain["num_iterations"]
    for words, tree in (("TOP_K,DEPTH,NODES", "10,6"), ("at most 21", "4,2,60")):
        refused = specguide("generate", "--tree", tree, TEXT)
        assert refused.returncode == 2 and words in refused.stderr, refused.stderr


@pytest.mark.parametrize("command", [serve, generate, chat])
def test_every_field_of_the_configuration_is_an_option(command):
    options = inspect.signature(command).parameters
    fixed = {
        "model_name",
        "model_aliases",
        "model",
        "guide",
        "cache",
        "spec",
        "api_keys",
        "method",
        "backend",
        "exposure",
        "transfer",
    }  # called otherwise
    if command is not serve:
        fixed |= {"max_batch_size", "trace"}
    for config in (
        EngineConfig,
        CacheConfig,
        GuideConfig,
        SpecConfig,
        *([ServerConfig, Exposure, TransferConfig] if command is serve else ()),
    ):
        words = field_words(config)
        for field in fields(config):
            assert words.get(field.name), f"{config.__name__} says nothing of {field.name}"
            source = next((s for s in (CACHE, ENGINE, GUIDE, SPEC) if s.config is config), None)
            name = source.names.get(field.name) if source else None
            if field.name not in fixed:
                parameter = options[name or field.name]
                if field.name not in (
                    "max_batch_size",
                    "isolate_compiles",
                ):  # a server's is larger, or safer
                    assert parameter.default == field.default


def test_options_come_to_a_configuration():
    given = {
        CacheConfig: {"page_size": 8},
        GuideConfig: {"num_threads": 3},
        EngineConfig: {"lag": 0},
        Without: {},
        SpecConfig: {"method": None, "model": Path("head"), "tree": "4,3,9"},
    }
    config = engine_config(Path("target"), given)
    assert (config.model, config.lag, config.cache.page_size, config.guide.num_threads) == (
        Path("target"),
        0,
        8,
        3,
    )
    assert config.spec == SpecConfig("eagle3", Path("head"), tree=DynamicTree(4, 3, 9))
    with pytest.raises(InvalidParams, match="--no-spec and --head contradict"):
        engine_config(Path("target"), given | {Without: {"no_spec": True}})
    without = given | {Without: {"no_guides": True}}
    with pytest.raises(InvalidParams, match="--no-guides and --num-grammar-threads contradict"):
        engine_config(Path("target"), without)
    served = {GuideConfig: {"isolate_compiles": True}}
    options = replace(GUIDE, defaults=served[GuideConfig])
    assert engine_config(Path("target"), without | served, options).guide is None
    given[SpecConfig] |= {"model": None, "tree": None}
    assert engine_config(None, given | {Without: {"no_spec": True}}).spec is None
    assert (
        engine_config(Path("target"), given).spec is None
        and engine_config(None, given).spec == SpecConfig()
    )


@pytest.mark.parametrize("command", [generate, chat])
@pytest.mark.parametrize("name", ["max_tokens", "temperature", "seed"])
def test_what_is_sampled_is_said_in_the_words_of_the_parameters(command, name):
    option = inspect.signature(command, eval_str=True).parameters[name].annotation.__metadata__[0]
    assert option.help.lower() == field_words(SamplingParams)[name].lower()


def test_words_of_fields_do_not_hang_on_how_a_docstring_is_indented(monkeypatch):
    """From Python 3.13 on the compiler takes the indentation out; with -OO there is none."""
    words = field_words(EngineConfig)
    monkeypatch.setattr(EngineConfig, "__doc__", inspect.cleandoc(EngineConfig.__doc__))
    assert field_words(EngineConfig) == words and "model" in words
    monkeypatch.setattr(EngineConfig, "__doc__", None)
    assert field_words(EngineConfig) == {}


def test_output_for_which_there_is_no_room_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "grammars", "list"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "specguide: [Errno 28] No space left on device\n"


def test_serve_takes_its_model_either_way(monkeypatch):
    plans = []

    class Watched:
        def __init__(self, plan, tell):
            plans.append(plan)

        def run(self):
            return 0

    monkeypatch.setattr("specguide.server.processes.supervisor.Supervisor", Watched)
    for given in (["org/name"], ["--model", "org/name"]):
        assert specguide("serve", *given).returncode == 0
        assert (plans[-1].engine.model, plans[-1].server.model_name) == (Path("org/name"), "name")
    both = specguide("serve", "one", "--model", "other")
    assert both.returncode == 2 and "--model" in both.stderr


def test_a_log_on_a_full_disk_ends_no_service(monkeypatch):
    with (
        pytest.raises(OSError, match="No space"),
        open("/dev/full", "w") as full,
    ):  # as it is closed
        monkeypatch.setattr(sys, "stderr", full)
        _tell("front-1 was ended by SIGKILL; starting another one")
        is_told = True
    assert is_told
