"""The parts of a record as a document shows them: labelled entries, lists, tables and sections."""

from __future__ import annotations

from random import Random

from training.data.prose import join_list
from training.data.records import Node, Record

Entry = tuple[str, str]  # (label, text)


def cased(r: Random, label: str) -> str:
    roll = r.random()
    if roll < 0.6:
        return label
    if roll < 0.75:
        return label.lower()
    return label.title() if roll < 0.88 else label.upper()


def _scalar_entries(node: Node, prefix: str) -> list[Entry]:
    label = f"{prefix}{node.label}" if prefix else node.label
    if node.spec.shape == "list":
        return [(label, ", ".join(value.text for value in node.values))] if node.values else []
    return [(label, node.value.text)] if node.value is not None else []


ROW_JOINTS = (
    " for ",
    " of ",
    " at ",
    " by ",
    " with ",
    ", ",
    " - ",
    ": ",
    " from ",
    " to ",
    " in ",
    " as ",
    " / ",
    " x ",
    " = ",
)


def _rows_inline(r: Random, node: Node, rows: list[list[str]]) -> str:
    """Rows in running text: `3 for Anna (blue), 5 for Tom (red)`, columns in order, the same joints
    in every row."""
    joints = [r.choice(ROW_JOINTS) for _ in rows[0][1:]]
    bracket = len(joints) > 0 and r.random() < 0.35
    shown = []
    for row in rows:
        text = row[0]
        for index, (joint, value) in enumerate(zip(joints, row[1:], strict=True)):
            text += f" ({value})" if bracket and index == len(joints) - 1 else joint + value
        shown.append(text)
    intro = r.choice(
        ("{}: ", "{}: ", "The {} are ", "{} - ", "There are {}: ", "We list the {}: ")
    ).format(node.label.lower())
    return intro[0].upper() + intro[1:] + join_list(r, shown) + "."


def _rows_block(r: Random, node: Node) -> str:
    labels = [child.label for child in node.children]
    rows = [[value.text for value in row] for row in node.rows]
    roll = r.random()
    if roll < 0.15 and len(labels) < 5:
        return _rows_inline(r, node, rows)
    roll = r.random()
    if roll < 0.3:
        head = "| " + " | ".join(labels) + " |\n|" + "---|" * len(labels)
        body = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    elif roll < 0.45:
        sep = (
            r.choice((", ", ";", "\t", " / "))
            if not any("," in text for row in rows for text in row)
            else "; "
        )
        head, body = sep.join(labels), "\n".join(sep.join(row) for row in rows)
    elif roll < 0.7:
        pairs = (
            ", ".join(f"{label}: {text}" for label, text in zip(labels, row, strict=True))
            for row in rows
        )
        head = ""
        body = "\n".join(r.choice(("- ", "- ", "* ")) + line for line in pairs)
    elif roll < 0.85:
        pairs = (
            ", ".join(f"{label.lower()} {text}" for label, text in zip(labels, row, strict=True))
            for row in rows
        )
        head = ""
        body = "\n".join(f"{number}. {line}" for number, line in enumerate(pairs, 1))
    else:
        head = ""
        body = "\n".join("- " + ", ".join(row) for row in rows)
        if r.random() < 0.7:
            head = "(" + ", ".join(labels) + ")"
    title = f"{cased(r, node.label)}{r.choice((':', ':', ''))}\n"
    return title + (head + "\n" if head else "") + body


def _list_entry(r: Random, node: Node) -> Entry | str | None:
    texts = [value.text for value in node.values]
    if not texts:
        return None if r.random() < 0.6 else (node.label, r.choice(("none", "-", "n/a")))
    if r.random() < 0.3 and len(texts) > 1:
        return f"{cased(r, node.label)}:\n" + "\n".join("- " + text for text in texts)
    return node.label, join_list(r, texts) if r.random() < 0.6 else r.choice(
        (", ", "; ", " / ", " | ")
    ).join(texts)


def entries_and_blocks(r: Random, record: Record) -> tuple[list[Entry], list[str]]:
    """Label and text pairs that go on lines, and blocks (tables, lists, sections) that come as they
    are."""
    entries: list[Entry] = []
    blocks: list[str] = []
    for node in record.nodes:
        if node.spec.shape == "leaf":
            entries += _scalar_entries(node, "")
        elif node.spec.shape == "list":
            made = _list_entry(r, node)
            if isinstance(made, str):
                blocks.append(made)
            elif made:
                entries.append(made)
        elif node.spec.shape == "rows":
            blocks.append(_rows_block(r, node))
        elif r.random() < 0.5:
            for child in node.children:
                entries += _scalar_entries(child, f"{node.label} " if r.random() < 0.8 else "")
        else:
            inner = [pair for child in node.children for pair in _scalar_entries(child, "")]
            pad = r.choice(("", "  ", "- "))
            blocks.append(
                f"{cased(r, node.label)}:\n"
                + "\n".join(f"{pad}{label}: {text}" for label, text in inner)
            )
    return entries, blocks
