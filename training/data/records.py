"""Document kinds as data (`Kind`) and one filled-in example of a kind (`Record`).

A kind is written as lines `name | type | label; label | description`. A name with dots is nested
(`customer.name`), `items[].price` is a column of an array of objects, `?` after a name means that
documents may lack it, and the type `list:T` is an array of scalars. Prose templates use `{name}`,
`{name?if true:if false}`, `[left out if missing]` and `{items: {price} for {name}}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from training.data.value_types import generator
from training.data.values import Value

STYLES = ("snake",) * 11 + ("camel",) * 5 + ("kebab", "title", "space", "pascal", "short")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One property of a kind; `shape` is leaf, list, rows or group."""

    name: str
    shape: str
    labels: tuple[str, ...]
    description: str
    optional: bool = False
    generate: Callable[[Random], Value] | None = None
    children: tuple[FieldSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A document kind: its fields, how prose tells them, and one-line summaries."""

    name: str
    fields: tuple[FieldSpec, ...]
    prose: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()


@dataclass(slots=True)
class Node:
    """A field in one example: `key` in the schema, `label` in the document, and what it holds.

    `value` is the scalar (None when the document lacks it), `values` a list's scalars, `rows` the
    rows of an array of objects (one Value per child), `children` the columns of rows or the members
    of a group.
    """

    spec: FieldSpec
    key: str
    label: str
    value: Value | None = None
    values: list[Value] = field(default_factory=list)
    rows: list[list[Value]] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    asked: bool = True


@dataclass(slots=True)
class Record:
    """One example: its nodes in the kind's order; `distract` lets the document hold unrelated
    entries."""

    kind: Kind
    nodes: list[Node]
    distract: bool = True

    def by_name(self) -> dict[str, Node]:
        """Nodes by the kind's own (dotted) names."""
        names = {node.spec.name: node for node in self.nodes}
        for node in self.nodes:
            if node.spec.shape == "group":
                names.update(
                    {f"{node.spec.name}.{child.spec.name}": child for child in node.children}
                )
        return names


def parse_kind(name: str, fields: str, prose: str = "", summaries: str = "") -> Kind:
    """A kind from its written form (module docstring); raises KeyError for an unknown type."""
    lines = [line.strip() for line in fields.strip().splitlines() if line.strip()]
    return Kind(name, tuple(_parse_fields(lines)), _lines(prose), _lines(summaries))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(
        line.strip().replace("\\n", "\n") for line in text.strip().splitlines() if line.strip()
    )


def _parse_fields(lines: list[str]) -> list[FieldSpec]:
    specs: list[FieldSpec] = []
    done: set[str] = set()
    for line in lines:
        parts = [*(part.strip() for part in line.split("|")), "", "", ""]
        head, dot, _ = parts[0].partition(".")
        base = head.removesuffix("[]").rstrip("?")
        if base in done:
            continue
        done.add(base)
        if dot or head.endswith("[]"):
            own = [part[len(head) + 1 :] for part in lines if part.startswith(head + ".")]
            shape = "rows" if head.endswith("[]") else "group"
            title = next((x for x in lines if x.split("|")[0].strip() == head), f"{base}||")
            shown, text = [*title.split("|"), "", "", ""][2:4]
            named = _labels(shown or base.replace("_", " ").capitalize())
            specs.append(
                FieldSpec(base, shape, named, text.strip(), children=tuple(_parse_fields(own)))
            )
            continue
        shape, item = ("list", parts[1][5:]) if parts[1].startswith("list:") else ("leaf", parts[1])
        labels = _labels(parts[2] or base.replace("_", " ").capitalize())
        specs.append(FieldSpec(base, shape, labels, parts[3], head.endswith("?"), generator(item)))
    return specs


def _labels(text: str) -> tuple[str, ...]:
    return tuple(label.strip() for label in text.split(";") if label.strip())


WORD = re.compile(r"[^\W_]+")


def style_name(words: str, style: str) -> str:
    """`words` (snake case or a label) as a property name in a naming style."""
    parts = WORD.findall(words)
    if not parts:
        return words
    lower = [part.lower() for part in parts]
    if style == "camel":
        return lower[0] + "".join(part.capitalize() for part in lower[1:])
    if style == "pascal":
        return "".join(part.capitalize() for part in lower)
    if style == "kebab":
        return "-".join(lower)
    if style == "title":
        return " ".join(part.capitalize() for part in lower)
    if style == "space":
        return " ".join(lower)
    if style == "short" and len(lower) > 1:
        return lower[-1]
    return "_".join(lower)


def _node(r: Random, spec: FieldSpec, style: str, taken: set[str]) -> Node:
    source = spec.name if r.random() < 0.6 else r.choice(spec.labels)
    key = style_name(source, style)
    if key in taken or not key.isascii():
        key = style_name(spec.name, "snake")
    while key in taken:
        key += "_2"
    taken.add(key)
    node = Node(spec, key, r.choice(spec.labels))
    if spec.shape == "leaf":
        missing = r.random() < (0.2 if spec.optional else 0.01)
        node.value = None if missing else spec.generate(r)  # type: ignore[misc]
    elif spec.shape == "list":
        count = r.choice((1, 2, 2, 3, 3, 4, 5, 0 if spec.optional else 2))
        node.values = list({v.json: v for v in (spec.generate(r) for _ in range(count))}.values())  # type: ignore[misc]
    else:
        inner: set[str] = set()
        node.children = [_node(r, child, style, inner) for child in spec.children]
        if spec.shape == "rows":
            count = r.choice((1, 2, 2, 3, 3, 4))
            node.rows = [[c.spec.generate(r) for c in node.children] for _ in range(count)]  # type: ignore[misc]
    return node


def make_record(r: Random, kind: Kind) -> Record:
    """A random example of `kind`; some of its fields are left out of the schema and stay as
    distractors."""
    style, taken = r.choice(STYLES), set[str]()
    nodes = [_node(r, spec, style, taken) for spec in kind.fields]
    if r.random() < 0.6 and len(nodes) > 2:
        keep = r.random() * 0.5 + 0.45
        for node in nodes:
            node.asked = r.random() < keep
        if not any(node.asked for node in nodes):
            nodes[0].asked = True
    for node in nodes:
        if node.spec.shape == "group" and r.random() < 0.3:
            for child in node.children[1:]:
                child.asked = r.random() < 0.7
    return Record(kind, nodes)
