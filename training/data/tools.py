"""Tool-choice tasks: signatures in the prompt, and a call (or a short refusal where no tool fits)
as the answer."""

from __future__ import annotations

from random import Random
from typing import Any

from training.data import lexicon as lx
from training.data.procedural import procedural_kind
from training.data.records import STYLES, FieldSpec, parse_kind, style_name
from training.data.semantic import semantic_kind
from training.data.tool_catalog import CATALOG_TEXT
from training.data.values import Value

Tool = dict[str, Any]
_REFUSALS = ("None of the available tools can do that.",)
_OFF_TOPIC = (
    "Tell me a joke about a {w}.",
    "What do you think about {w} and {v}?",
    "Who invented the {w}?",
    "Thank you, that was all.",
    "How are you today?",
    "Write a poem about the {w}.",
    "Why is the {w} so {v}?",
    "Hello!",
    "Is a {w} better than a {v}?",
)
_VERBS = (  # noqa: SIM905
    "create update delete get list find send start stop check assign cancel confirm register "
    "submit approve archive"
).split()


def _catalog_entry(line: str) -> tuple[str, str, tuple[FieldSpec, ...], tuple[str, ...]]:
    name, text, fields, requests = (part.strip() for part in line.split(" | "))
    lines = []
    for one in fields.split(";"):
        field, kind = one.strip().split(" ", 1)
        lines.append(f"{field} | {kind} | {field.rstrip('?').replace('_', ' ')}")
    parsed = parse_kind(name, "\n".join(lines))
    return name, text, parsed.fields, tuple(request.strip() for request in requests.split(" / "))


CATALOG = [_catalog_entry(line) for line in CATALOG_TEXT.strip().splitlines()]


def _signature(
    r: Random, name: str, text: str, schemas: dict[str, Any], required: list[str], wrap: bool
) -> Tool:
    parameters: dict[str, Any] = {"type": "object", "properties": schemas}
    if required:
        parameters["required"] = required
    function = {"name": name, "description": text, "parameters": parameters}
    return {"type": "function", "function": function} if wrap else function


def _property(r: Random, spec: FieldSpec, value: Value, told: float) -> dict[str, Any]:
    schema: dict[str, Any] = dict(value.schema)
    if spec.shape == "list":
        schema = {"type": "array", "items": schema}
    if r.random() < told and "description" not in schema:
        schema["description"] = spec.description or r.choice(spec.labels)
    return schema


def _draw(
    r: Random, fields: tuple[FieldSpec, ...], always: bool = False
) -> list[tuple[FieldSpec, list[Value] | None, Value]]:
    """Each field with its values (None: not given) and one sample value for its schema."""
    drawn = []
    for spec in fields:
        values = [spec.generate(r) for _ in range(r.randint(1, 3) if spec.shape == "list" else 1)]  # type: ignore[misc]
        given = always or not spec.optional or r.random() < 0.5
        drawn.append((spec, values if given else None, values[0]))
    return drawn


def _request(
    r: Random, template: str, shown: dict[str, str], truth: dict[str, bool]
) -> tuple[str, set[str]]:
    """The template with its values; optional parts without a value vanish. Returns the names it
    tells as well."""
    out = []
    told = set()
    for index, part in enumerate(template.replace("]", "[").split("[")):
        names = [piece.split("}")[0] for piece in part.split("{")[1:]]
        keys = [name.split("?")[0] for name in names]
        if index % 2 and any(key not in shown for key in keys):
            continue
        for name, key in zip(names, keys, strict=True):
            choice = name.partition("?")[2]
            part = part.replace(
                "{" + name + "}", choice.split(":")[not truth[key]] if choice else shown[key]
            )
            told.add(key)
        out.append(part)
    return "".join(out), told


def _catalog_task(r: Random) -> tuple[Tool, str, str]:
    name, text, fields, requests = r.choice(CATALOG)
    drawn = _draw(r, fields)
    shown = {s.name: ", ".join(v.text for v in values) for s, values, _ in drawn if values}
    truth = {s.name: values[0].json == "true" for s, values, _ in drawn if values}
    request, told = _request(r, r.choice(requests), shown, truth)
    style = r.choice(STYLES) if r.random() < 0.3 else "snake"
    style = "snake" if style in ("short", "title", "space") else style
    return _assemble(r, style_name(name, style), text, drawn, told, style, request)


def _assemble(r, name, text, drawn, told, style, request):  # type: ignore[no-untyped-def]
    rate = r.choice((0.0, 0.5, 1.0))
    schemas = {}
    required = []
    parts = []
    for spec, values, sample in drawn:
        key = style_name(spec.name, style)
        schemas[key] = _property(r, spec, sample, rate)
        if not spec.optional:
            required.append(key)
        if values and spec.name in told:
            body = (
                "[" + ", ".join(v.json for v in values) + "]"
                if spec.shape == "list"
                else values[0].json
            )
            parts.append(f'"{key}": {body}')
    tool = _signature(r, name, text, schemas, required, True)
    return tool, request, f'{{"name": "{name}", "arguments": {{{", ".join(parts)}}}}}'


def _composed_task(r: Random, held_out: bool) -> tuple[Tool, str, str]:
    """A made-up function of procedurally named or everyday parameters, and a request that names
    them."""
    kind = procedural_kind(r, held_out) if held_out or r.random() < 0.6 else semantic_kind(r)
    fields = tuple(f for f in kind.fields if f.shape in ("leaf", "list"))[: r.randint(1, 5)]
    verb = r.choice(_VERBS)
    thing = kind.name.rsplit("_", 1)[0]
    drawn = _draw(r, fields)
    told = {spec.name for spec, values, _ in drawn if values}
    joiner = r.choice(("with {} {}", "{}: {}", "{} {}", "the {} is {}", "using {} {}", "{} = {}"))
    details = [
        joiner.format(r.choice(spec.labels).lower(), ", ".join(v.text for v in values))
        for spec, values, _ in drawn
        if values
    ]
    r.shuffle(details)
    head = r.choice(
        (
            f"Please {verb} the {thing}",
            f"{verb.capitalize()} a {thing}",
            f"I want to {verb} a {thing}",
            f"Can you {verb} the {thing}",
        )
    )
    gap, joint, end = (
        r.choice((", ", " ", "; ", " - ")),
        r.choice((", ", " and ", "; ")),
        r.choice((".", "", "?")),
    )
    request = f"{head}{gap}{joint.join(details)}{end}"
    style = r.choice(("snake", "snake", "camel", "pascal"))
    text = r.choice(
        (
            f"{verb.capitalize()} a {thing}",
            f"{verb.capitalize()}s the {thing} in the system",
            f"Use this to {verb} a {thing}.",
        )
    )
    return _assemble(r, style_name(f"{verb}_{thing}", style), text, drawn, told, style, request)


def call_schema(function: Tool) -> dict[str, Any]:
    """The JSON schema of a call of one function: its name and its arguments."""
    properties = {"name": {"const": function["name"]}, "arguments": function["parameters"]}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def tool_task(r: Random, held_out: bool = False) -> tuple[list[Tool], str, str, bool]:
    """(tools, request, answer, is_call): 1 to 8 signatures of which one fits, or none does."""
    make = (
        (lambda: _composed_task(r, True))
        if held_out
        else (lambda: _catalog_task(r) if r.random() < 0.5 else _composed_task(r, False))
    )
    tool, request, call = make()
    tools = {tool["function"]["name"]: tool}
    for _ in range(r.choice((0, 0, 1, 1, 2, 2, 3, 4, 5, 7))):
        other = _composed_task(r, held_out)[0] if r.random() < 0.5 else _catalog_task(r)[0]
        tools.setdefault(other["function"]["name"], other)
    if r.random() < 0.12:
        if r.random() < 0.5 or len(tools) == 1:
            request = r.choice(_OFF_TOPIC).format(w=r.choice(lx.WORDS), v=r.choice(lx.WORDS))
        else:
            del tools[tool["function"]["name"]]
        chosen = list(tools.values())
        return chosen, request, _REFUSALS[0], False
    chosen = list(tools.values())
    r.shuffle(chosen)
    return chosen, request, call, True
