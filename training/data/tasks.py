"""The task mixture: documents to JSON, tool calls, short free text and odd schemas, all from one
seeded generator.

`sample_task(random, split)` draws one example; the splits "known" and "left_out" never share a
hand-written kind or a held-out lexicon word, and training uses "known" only. Answers are made in
the spaced style; `sample_task` alone makes some of them compact.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.data import kinds_business, kinds_held_out, kinds_leisure, kinds_life
from training.data.answer_style import COMPACT_SHARE, restyled
from training.data.chat import Task, call_text
from training.data.odd_schemas import odd_task
from training.data.procedural import procedural_kind
from training.data.prose import fill
from training.data.records import Kind, Node, make_record
from training.data.render import document, unlabelled
from training.data.schema_style import dump_schema, schema_and_answer
from training.data.semantic import semantic_kind
from training.data.thesaurus import other_label, typed_kind
from training.data.tools import call_schema, tool_task

KNOWN_KINDS: list[Kind] = kinds_business.KINDS + kinds_life.KINDS + kinds_leisure.KINDS
LEFT_OUT_KINDS: list[Kind] = kinds_held_out.KINDS
INSTRUCTIONS = (
    "Extract the data from this text.",
    "Fill in the schema from the text below.",
    "Turn this into JSON:",
    "Read the document and answer in JSON.",
    "What does this say?",
    "Extract:",
    "Parse the following.",
    "Convert the text to structured data.",
    "Get the fields out of this document:",
    "JSON please.",
)
SYSTEMS = (
    "You are a helpful assistant.",
    "You extract data from documents.",
    "Be precise.",
    "Answer only with what is asked.",
    "You are a careful assistant that reads documents.",
)
QUESTIONS = (
    "What is the {}?",
    "Tell me the {}.",
    "{}?",
    "Which {} does the text give?",
    "Find the {}.",
    "I need the {}.",
)
SUMMARY_REQUESTS = (
    "Summarize this in one line.",
    "Give a one-line summary.",
    "What is this about?",
    "Sum it up briefly.",
    "TL;DR",
)
TITLE_REQUESTS = ("Give this a title.", "What kind of document is this?", "Name the document type.")


def _around(r: Random, instruction: str, text: str) -> str:
    roll = r.random()
    if roll < 0.75:
        return f"{instruction}{r.choice((chr(10), chr(10) * 2, ' '))}{text}"
    return f"{text}\n\n{instruction}"


def _system(r: Random) -> str:
    return r.choice(SYSTEMS) if r.random() < 0.15 else ""


def extraction_task(r: Random, kind: Kind, with_schema: bool = True) -> Task:
    """A document of `kind` and a schema for some of its fields."""
    record = make_record(r, kind)
    text = document(r, record)
    schema, answer = schema_and_answer(r, record)
    if r.random() < 0.3:
        text = _around(r, r.choice(INSTRUCTIONS), text)
    if not with_schema:
        asked = ", ".join(schema["properties"])
        if r.random() < 0.4:
            return Task(text, answer, None, system=_system(r), kind=kind.name)
        text = _around(
            r,
            r.choice(
                ("Give me JSON with {}.", "Answer as a JSON object with the keys {}:", "JSON: {}")
            ).format(asked),
            text,
        )
    shown = dump_schema(r, schema) if with_schema else None
    return Task(text, answer, shown, system=_system(r), kind=kind.name)


def _any_known_kind(r: Random) -> Kind:
    roll = r.random()
    if roll < 0.25:
        return r.choice(KNOWN_KINDS)
    if roll < 0.50:
        return semantic_kind(r)
    return typed_kind(r) if roll < 0.78 else procedural_kind(r)


def values_only_task(r: Random) -> Task:
    """A document of bare values, to be told apart by their types (any order) or by their order."""
    record = make_record(r, typed_kind(r))
    record.nodes = [
        node
        for node in record.nodes
        if node.spec.shape == "leaf" and node.value and node.value.json not in ("true", "false")
    ]
    if not record.nodes:
        return extraction_task(r, typed_kind(r))
    for node in record.nodes:
        node.asked = True
    distinct = len({id(node.spec.generate) for node in record.nodes}) == len(record.nodes)
    schema, answer = schema_and_answer(r, record, shuffle=False)
    if distinct and r.random() < 0.7:
        r.shuffle(record.nodes)
    return Task(
        unlabelled(r, record), answer, dump_schema(r, schema), system=_system(r), kind="values"
    )


def odd_label_task(r: Random) -> Task:
    """A labelled document in which some labels differ from the property's name and only the type
    gives the answer."""
    record = make_record(r, typed_kind(r))
    record.distract = False
    for node in record.nodes:
        node.asked = True
        other = other_label(r, node.spec)
        if other and r.random() < 0.3:
            node.label = other
    ordered = r.random() < 0.5
    schema, answer = schema_and_answer(r, record, shuffle=not ordered)
    return Task(
        document(r, record), answer, dump_schema(r, schema), system=_system(r), kind="odd labels"
    )


def _question(r: Random, nodes: list[Node]) -> tuple[str, str] | None:
    leaves = [
        node
        for node in nodes
        if node.spec.shape == "leaf" and node.value and node.value.schema["type"] != "boolean"
    ]
    if not leaves:
        return None
    node = r.choice(leaves)
    label = r.choice((node.label, node.spec.name.replace("_", " "), r.choice(node.spec.labels)))
    return r.choice(QUESTIONS).format(label.lower() if r.random() < 0.7 else label), node.value.text  # type: ignore[union-attr]


def free_text_task(r: Random) -> Task:
    """A summary of a document, its type, or a short answer to a question about it."""
    kind = r.choice(KNOWN_KINDS) if r.random() < 0.6 else _any_known_kind(r)
    record = make_record(r, kind)
    text, roll = document(r, record), r.random()
    if kind.summaries and roll < 0.4 and kind in KNOWN_KINDS:
        answer = fill(r, r.choice(kind.summaries), record)
        return Task(
            _around(r, r.choice(SUMMARY_REQUESTS), text),
            answer[0].upper() + answer[1:],
            system=_system(r),
        )
    if roll < 0.5:
        return Task(
            _around(r, r.choice(TITLE_REQUESTS), text),
            kind.name.replace("_", " ").capitalize(),
            system=_system(r),
        )
    pair = _question(r, record.nodes)
    if pair is None:
        return Task(
            text, "The document is about: " + kind.name.replace("_", " "), system=_system(r)
        )
    return Task(_around(r, pair[0], text), pair[1], system=_system(r))


def tool_choice_task(r: Random, held_out: bool = False) -> Task:
    tools, request, answer, is_call = tool_task(r, held_out)
    return Task(
        request,
        call_text(answer) if is_call else answer,
        tools=tuple(tools),
        system=_system(r),
        kind="tools",
    )


def call_schema_task(r: Random) -> Task:
    """A request whose answer is a call as plain JSON, by a schema of all calls there are; the tools
    shown or not."""
    tools, request, answer, is_call = tool_task(r)
    while not is_call:
        tools, request, answer, is_call = tool_task(r)
    calls = [call_schema(tool["function"]) for tool in tools]
    schema = dump_schema(r, calls[0] if len(calls) == 1 else {"anyOf": calls})
    return Task(
        request,
        answer,
        schema,
        tuple(tools) if r.random() < 0.6 else (),
        system=_system(r),
        kind="calls",
    )


def odd_schema_task(r: Random) -> Task:
    """A schema that the text says little about, with or without the schema in the prompt."""
    schema, answer = odd_task(r)
    roll = r.random()
    if roll < 0.5:
        text = r.choice(
            (
                "Generate an example.",
                "Fill in this schema.",
                "Give me an instance of the schema.",
                "JSON please.",
                "Generate a JSON object that matches the schema.",
            )
        )
    else:
        text = document(r, make_record(r, _any_known_kind(r)))
    return Task(text, answer, dump_schema(r, schema), system=_system(r), kind="odd")


def sample_task(r: Random, split: str = "known", compact_share: float = COMPACT_SHARE) -> Task:
    """One example of the training mixture ("known"), or of its left-out counterpart ("left_out",
    extraction only).

    compact_share: the share of compact answers among those with JSON
    """
    return restyled(r, _spaced_task(r, split), compact_share)


def _spaced_task(r: Random, split: str) -> Task:
    if split == "left_out":
        return extraction_task(
            r, r.choice(LEFT_OUT_KINDS) if r.random() < 0.6 else procedural_kind(r, held_out=True)
        )
    roll = r.random()
    if roll < 0.60:
        return extraction_task(r, _any_known_kind(r), with_schema=roll > 0.03)
    if roll < 0.70:
        return values_only_task(r) if roll < 0.65 else odd_label_task(r)
    if roll < 0.82:
        return tool_choice_task(r) if roll < 0.79 else call_schema_task(r)
    return free_text_task(r) if roll < 0.93 else odd_schema_task(r)


Sampler = Callable[[Random], Task]
