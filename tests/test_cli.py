"""The command line on the shipped model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
TEXT = (EXAMPLES / "person.txt").read_text()


def specguide(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "specguide", *args], input=stdin, capture_output=True, text=True,
                          timeout=120)


def test_generate_reads_standard_input_and_writes_json():
    done = specguide("generate", "--schema", str(EXAMPLES / "person.json"), "--json-stats", stdin=TEXT)
    assert done.returncode == 0, done.stderr
    answer, figures = json.loads(done.stdout), json.loads(done.stderr.splitlines()[-1])
    jsonschema.validate(answer, json.loads((EXAMPLES / "person.json").read_text()))
    assert answer["name"] == "Maria Keller" and answer["age"] == 34
    assert figures["finish_reason"] == "stop" and figures["acceptance_length"] > 1.5
    assert figures["output_tokens"] == sum(
        n * (a + 1) for a, n in enumerate(figures["accepted_histogram"])) + 1


def test_speculation_does_not_change_the_output():
    args = ["generate", "--schema", str(EXAMPLES / "person.json"), TEXT]
    fast, plain = specguide(*args), specguide(*args, "--no-spec")
    assert fast.stdout == plain.stdout and "acceptance length 1.00" in plain.stderr


def test_a_regex_and_a_grammar_guide(tmp_path):
    assert specguide("generate", "--regex", "(yes|no)!", "is it?").stdout in ("yes!\n", "no!\n")
    grammar = tmp_path / "digits.ebnf"
    grammar.write_text('root ::= "<" [0-9] [0-9] ">"')
    out = specguide("generate", "--grammar", str(grammar), "a number").stdout.strip()
    assert len(out) == 4 and out[0] == "<" and out[1:3].isdigit()


def test_a_timeline_is_written(tmp_path):
    done = specguide("generate", "--max-tokens", "8", "--trace", str(tmp_path / "out.json"), "hello")
    assert done.returncode == 0, done.stderr
    names = {event["name"] for event in json.loads((tmp_path / "out.json").read_text())["traceEvents"]}
    assert {"target forward", "callback 3", "schedule"} <= names
    done = specguide("generate", "--max-tokens", "8", "--trace", str(tmp_path), "hello")
    assert done.returncode == 2 and "cannot write" in done.stderr and done.stdout


@pytest.mark.parametrize(("args", "words"), [
    (["--schema", "nowhere.json", "x"], "cannot read nowhere.json"),
    (["--schema", __file__, "x"], "json_schema is not valid JSON"),
    (["--regex", "a", "--grammar", __file__, "x"], "exactly one"),
    (["--temperature", "-1", "x"], "temperature"),
    (["--model", "/nowhere", "x"], "/nowhere"),
    ([""], "empty"),
    (["--max-tokens", "0", "x"], "max_tokens"),
    (["x " * 5000], "context"),
])
def test_a_mistake_is_one_line_and_exit_code_2(args, words):
    done = specguide("generate", *args)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_doctor_finds_what_is_needed():
    done = specguide("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("grammar backend llguidance", "grammar backend xgrammar", "shipped model", "CUDA driver"):
        assert words in done.stdout
