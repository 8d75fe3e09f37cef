"""Turns a record into a document: labelled layouts of many looks, generic sentences, or the kind's
own prose."""

from __future__ import annotations

from random import Random

from training.data import lexicon as lx
from training.data.entries import Entry, entries_and_blocks
from training.data.prose import fill
from training.data.records import Record, style_name
from training.data.value_types import GENERATORS

LINE_FORMS = ("{}: {}",) * 6 + (
    "{} - {}",
    "{} = {}",
    "- {}: {}",
    "* {}: {}",
    "- **{}**: {}",
    "**{}**: {}",
    "{}:\t{}",
    "[{}] {}",
    "{} | {}",
    "{} .... {}",
    "{}:{}",
    "> {}: {}",
    "{} -> {}",
    "• {}: {}",
    "{}\n  {}",
    "{} : {}",
)
SENTENCES = (
    "The {0} is {1}.",
    "The {0} is {1}.",
    "{0}: {1}.",
    "Its {0} is {1}.",
    "It has {1} as the {0}.",
    "The {0} was given as {1}.",
    "For the {0} we noted {1}.",
    "{1} is the {0}.",
    "The {0} reads {1}.",
    "We recorded {1} for the {0}.",
    "As for the {0}, it is {1}.",
    "There is a {0} of {1}.",
    "Please note the {0}: {1}.",
    "The {0} stands at {1}.",
    "The {0} should be {1}.",
    "The {0}, {1}, is known.",
)
DISTRACTORS = (
    "Page",
    "Ref",
    "Printed by",
    "Form",
    "Copy",
    "Queue",
    "Checksum",
    "Desk",
    "Folder",
    "Revision",
    "Tag",
    "Extension",
    "Shelf",
    "Contact",
    "Internal note",
    "Archive",
    "Source",
    "Handled by",
    "Memo",
    "Batch",
)


def _distract(r: Random, entries: list[Entry]) -> None:
    used = {label.lower() for label, _ in entries}
    for _ in range(r.choice((0, 0, 0, 1, 1, 2, 3))):
        label = r.choice(DISTRACTORS)
        if label.lower() not in used:
            used.add(label.lower())
            text = GENERATORS[
                r.choice(("code", "phrase", "iso", "person", "token", "version", "money"))
            ](r).text
            entries.insert(r.randint(0, len(entries)), (label, text))


def _one_line(r: Random, entries: list[Entry]) -> str:
    roll = r.random()
    if roll < 0.35:
        pairs = (
            f"{style_name(k, 'snake')}={v if ' ' not in v else chr(34) + v + chr(34)}"
            for k, v in entries
        )
        return r.choice((" ", " ", "; ", "&", ", ")).join(pairs)
    if roll < 0.7:
        return r.choice(("; ", " | ", ", ", " / ")).join(f"{k}: {v}" for k, v in entries)
    return r.choice((", ", "; ")).join(f"{k.lower()} {v}" for k, v in entries) + "."


def _markup(r: Random, entries: list[Entry]) -> str:
    roll = r.random()
    if roll < 0.3:
        return "\n".join(
            f"<{style_name(k, 'snake')}>{v}</{style_name(k, 'snake')}>" for k, v in entries
        )
    if roll < 0.55:
        return "\n".join(
            ["| Field | Value |", "|---|---|"] + [f"| {k} | {v} |" for k, v in entries]
        )
    if roll < 0.75:
        return (
            "{\n" + ",\n".join(f'  "{style_name(k, "camel")}": "{v}"' for k, v in entries) + "\n}"
        )
    if roll < 0.85:
        sep = r.choice(("\t", ";", " | "))
        return sep.join(k for k, _ in entries) + "\n" + sep.join(v for _, v in entries)
    return "\n".join(f"{style_name(k, 'snake')}: {v}" for k, v in entries)


def _sentences(r: Random, entries: list[Entry]) -> str:
    out = []
    index = 0
    while index < len(entries):
        label, text = entries[index]
        low = label if label.isupper() else label[0].lower() + label[1:]
        if r.random() < 0.2 and index + 1 < len(entries):
            other, more = entries[index + 1]
            out.append(f"The {low} is {text} and the {other.lower()} is {more}.")
            index += 2
            continue
        made = r.choice(SENTENCES).format(low, text)
        out.append(made[0].upper() + made[1:] if not made.startswith(text) else made)
        index += 1
    return " ".join(out)


def _woven(r: Random, entries: list[Entry]) -> str:
    """Labels and values in running text: appositions, brackets and short clauses."""
    clauses = []
    for label, text in entries:
        low = label if label.isupper() else label[0].lower() + label[1:]
        clauses.append(
            r.choice(
                (
                    "{0} {1}",
                    "{1} ({0})",
                    "{1} as {0}",
                    "the {0} {1}",
                    "{0} of {1}",
                    "{0} is {1}",
                    "with {1} as the {0}",
                    "{0}: {1}",
                    "{1} for {0}",
                    "{1} is the {0}",
                    "{0} = {1}",
                )
            ).format(low, text)
        )
    out = ""
    for index, clause in enumerate(clauses):
        last = index == len(clauses) - 1
        out += clause + (
            "." if last else r.choice((", ", ", ", " and ", "; ", ". ", " - ", ", while "))
        )
    return r.choice(("", "This is about ", "We have ", "Known so far: ", "In short: ")) + out


def unlabelled(r: Random, record: Record) -> str:
    """Only the values, in the record's order: nothing but type and order says which is which."""
    texts = [node.value.text for node in record.nodes if node.value is not None]
    return r.choice(("\n", "\n", ", ", " | ", "; ", " - ", " / ", " ")).join(texts)


def labelled(r: Random, record: Record) -> str:
    """The document as labels with values, in one of many layouts."""
    entries, blocks = entries_and_blocks(r, record)
    if r.random() < 0.5:
        r.shuffle(entries)
    if record.distract:
        _distract(r, entries)
    roll = r.random()
    if roll < 0.5:
        form = r.choice(LINE_FORMS)
        upper = r.random()
        pairs = [
            (k.upper() if upper < 0.07 else k.lower() if upper < 0.2 else k, v) for k, v in entries
        ]
        body = r.choice(("\n", "\n", "\n", "\n\n")).join(form.format(k, v) for k, v in pairs)
    elif roll < 0.62:
        body = _one_line(r, entries)
    elif roll < 0.77:
        body = _markup(r, entries)
    else:
        body = _sentences(r, entries) if roll < 0.88 else _woven(r, entries)
    if entries:
        blocks.insert(r.randint(0, len(blocks)) if r.random() < 0.3 else 0, body)
    return "\n\n".join(blocks) if r.random() < 0.6 else "\n".join(blocks)


def prose(r: Random, record: Record) -> str:
    """The kind's own prose; what the template does not tell follows as sentences or lines, or is
    missing."""
    told: set[str] = set()
    text = fill(r, r.choice(record.kind.prose), record, told)
    heads = {name.partition(".")[0] for name in told}
    rest = [node for node in record.nodes if node.spec.name not in heads]
    lost = {
        child.spec.name
        for node in record.nodes
        if node.spec.shape == "group" and node.spec.name in heads
        for child in node.children
        if f"{node.spec.name}.{child.spec.name}" not in told
    }
    for node in record.nodes:
        for child in node.children:
            if node.spec.shape == "group" and node.spec.name in heads and child.spec.name in lost:
                child.value = None
                child.values = []
    if rest and r.random() < 0.75:
        entries, blocks = entries_and_blocks(r, Record(record.kind, rest))
        extra = (
            _sentences(r, entries)
            if r.random() < 0.6
            else "\n".join(f"{k}: {v}" for k, v in entries)
        )
        text += (" " if extra and "\n" not in extra else "\n") + "\n".join([extra, *blocks]).strip()
    else:
        for node in rest:
            node.value = None
            node.values = []
            if node.spec.shape == "rows" or node.spec.shape == "group":
                node.asked = False
    return text


def document(r: Random, record: Record) -> str:
    """A document that tells `record`; fields it does not tell are marked missing in the record."""
    own = record.kind.prose and r.random() < 0.5
    text = prose(r, record) if own else labelled(r, record)
    if not any(node.asked for node in record.nodes):
        record.nodes[0].asked = True
    if not own and r.random() < 0.5:
        title = record.kind.name.replace("_", " ")
        text = (
            r.choice(("# {}\n", "{}\n", "{}\n\n", "=== {} ===\n", "** {} **\n", "[{}] ")).format(
                r.choice((title.title(), title.upper(), title.capitalize()))
            )
            + text
        )
    if r.random() < 0.3:
        text += r.choice((" ", "\n", "\n\n")) + r.choice(lx.SENTENCE_BITS)
    if r.random() < 0.15:
        text = r.choice(lx.SENTENCE_BITS) + r.choice((" ", "\n", "\n\n")) + text
    return text
