"""The task generator: seeded, self-consistent, and honest about what is left out of training."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import jsonschema
import pytest

from training.data import kinds_test, tasks
from training.data.answer_style import ARGUMENTS, COMPACT_SHARE, compact, is_json
from training.data.chat import CALL_END, CALL_START, Task
from training.data.groups import SAMPLERS, samples_of
from training.data.lexicon import HELD_OUT_WORDS
from training.data.odd_schemas import odd_task
from training.data.procedural import procedural_kind
from training.data.records import WORD, make_record
from training.data.thesaurus import GROUPS
from training.evaluate import fields as evaluate_fields
from training.evaluate.fields import evaluate, scalars, score


def test_the_same_seed_gives_the_same_tasks() -> None:
    first = [tasks.sample_task(r) for r in [Random(5)] for _ in range(200)]
    again = [tasks.sample_task(r) for r in [Random(5)] for _ in range(200)]
    assert first == again
    assert first[:20] != [tasks.sample_task(r) for r in [Random(6)] for _ in range(20)]


@pytest.mark.parametrize("split", ["known", "left_out"])
def test_answers_match_their_schemas(split: str) -> None:
    r = Random(1)
    seen = 0
    while seen < 400:
        task = tasks.sample_task(r, split)
        if task.schema and not task.tools:
            jsonschema.validate(json.loads(task.answer), json.loads(task.schema))
            seen += 1


def test_call_schemas_admit_their_calls() -> None:
    r = Random(6)
    for _ in range(60):
        task = tasks.call_schema_task(r)
        jsonschema.validate(json.loads(task.answer), json.loads(task.schema))


def test_compact_text_loses_nothing_but_spaces_behind_separators() -> None:
    text = r'{"a, b": ["x: y, \", \" , z", -1.50], "c": {"d": {}, "é": null}}'
    assert compact(text) == r'{"a, b":["x: y, \", \" , z",-1.50],"c":{"d":{},"é":null}}'
    assert json.loads(compact(text)) == json.loads(text)


def test_a_share_of_answers_with_json_is_compact_throughout() -> None:
    spaced, mixed = (
        [tasks.sample_task(r, compact_share=share) for r in map(Random, range(1500))]
        for share in (0.0, COMPACT_SHARE)
    )
    assert [replace(x, answer="") for x in spaced] == [replace(x, answer="") for x in mixed]
    changed = [
        (a.answer, b.answer) for a, b in zip(spaced, mixed, strict=True) if a.answer != b.answer
    ]
    whole = [b for a, b in changed if b == compact(a)]
    assert all(
        b.split(ARGUMENTS)[1] == compact(a.split(ARGUMENTS)[1])
        for a, b in changed
        if b not in whole
    )
    assert 0.2 < len(changed) / sum(is_json(x.answer) for x in spaced) < 0.4 and 0 < len(
        whole
    ) < len(changed)
    assert all(evaluate_fields.parse(a) == evaluate_fields.parse(b) for a, b in changed)


def test_odd_schemas_are_valid_and_have_their_default_answer() -> None:
    r = Random(2)
    for _ in range(300):
        schema, answer = odd_task(r)
        jsonschema.Draft202012Validator.check_schema(
            {k: v for k, v in schema.items() if k not in ("$schema", "id")}
        )
        jsonschema.Draft202012Validator(schema).validate(json.loads(answer))


def test_tool_calls_match_the_signature_they_name() -> None:
    r = Random(3)
    for held_out in (False, True) * 100:
        task = tasks.tool_choice_task(r, held_out)
        if task.answer.startswith(CALL_START):
            call = json.loads(task.answer.removeprefix(CALL_START).removesuffix(CALL_END))
            signatures = {
                tool["function"]["name"]: tool["function"]["parameters"] for tool in task.tools
            }
            jsonschema.validate(call["arguments"], signatures[call["name"]])


def test_strings_of_an_answer_stand_in_the_text() -> None:
    """Apart from members of enums and dates made ISO, nothing has to be guessed."""
    r = Random(4)
    for _ in range(300):
        task = tasks.extraction_task(r, procedural_kind(r))
        text, schema = task.text.lower().replace(",", ""), task.schema or ""
        for _, value in scalars(json.loads(task.answer)):
            if (
                isinstance(value, str)
                and not (len(value) == 10 and value[4] == "-")
                and f'"{value}"' not in schema
            ):
                assert value.lower().replace(",", "") in text


def test_left_out_kinds_and_words_never_reach_training() -> None:
    known = {kind.name for kind in tasks.KNOWN_KINDS}
    left_out = {kind.name for kind in [*tasks.LEFT_OUT_KINDS, *kinds_test.KINDS]}
    assert len(known) >= 40 and len(left_out) >= 8 and not known & left_out
    r, held_out = Random(5), set(HELD_OUT_WORDS)
    for _ in range(500):
        record = make_record(r, procedural_kind(r))
        assert (
            not {word for node in record.nodes for word in WORD.findall(node.spec.name.lower())}
            & held_out
        )
    assert (
        not {word for _, words, _ in GROUPS for one in words for word in one.lower().split()}
        & held_out
    )
    assert all(
        {word for word in WORD.findall(spec.name.lower())} & held_out
        for _ in range(50)
        for spec in procedural_kind(r, held_out=True).fields
    )


def test_evaluation_counts_fields() -> None:
    task = Task("text", '{"a": 1, "b": ["x", "y"], "c": true}', "{}", kind="k")
    exact = score([task], [task.answer])
    assert (exact.fields, exact.fields_right, exact.whole_right) == (4, 4, 1)
    close = score([task], ['{"a": 1.0, "b": ["x", "z"], "c": 1}'])
    assert (close.fields_right, close.whole_right) == (2, 0)
    assert {miss.path for miss in close.misses} == {".b[1]", ".c"}
    broken = score([task], ['{"a": 1'])
    assert (broken.fields_right, broken.unparsed) == (0, 1)


def test_a_perfect_answer_scores_full_marks_in_every_group() -> None:
    results = evaluate(lambda samples: [task.answer for task in samples], 3, 20, list(SAMPLERS))
    assert all(result.accuracy == 1.0 for result in results.values())
    assert (
        samples_of("known kinds", 3, 5)
        == samples_of("known kinds", 3, 5)
        != samples_of("known kinds", 4, 5)
    )
