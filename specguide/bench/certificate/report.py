"""Owns how certificates are reported: as text, as totals over many, and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specguide.bench.certificate.certify import ERRORS, Certificate
from specguide.bench.certificate.enforcement import Enforcement
from specguide.bench.tables import columns, markdown_table

_A_MILLION = 1_000_000


def as_text(certificate: Certificate, enforced: Sequence[Enforcement]) -> str:
    """A certificate as text."""
    rows = [("keyword", "times", "who enforces it", f"{certificate.backend} alone")]
    rows += [(one.keyword, str(one.num), one.by, one.alone or "") for one in enforced]
    sums = totals([certificate])
    lines = [f"enforced by {certificate.backend}", "", *columns(rows), ""]
    lines += columns([(name, value) for name, value in figures(sums).items()])
    lines += ["", *columns(_spelling_rows(sums["spellings"]))]
    if certificate.is_cut:
        lines += [
            "",
            "The time limit ended the check before all was checked; raise --seconds to check more.",
        ]
    if certificate.faults:
        lines += ["", "Proven errors, the first of them:", *certificate.faults]
    return "\n".join(lines)


def totals(certificates: Iterable[Certificate]) -> dict[str, Any]:
    """Sums over certificates: the counts, spellings by style, schemas with proven errors and
    schemas cut by their time."""
    sums: dict[str, Any] = {"schemas": 0, "schemas_wrong": 0, "schemas_cut": 0}
    counts: Counter[str] = Counter()
    spellings: dict[str, Counter[str]] = {}
    for one in certificates:
        sums["schemas"] += 1
        sums["schemas_wrong"] += one.num_errors > 0
        sums["schemas_cut"] += one.is_cut
        counts.update(one.counts)
        for style, found in one.spellings.items():
            spellings.setdefault(style, Counter()).update(found)
    counts.update(dict.fromkeys((*ERRORS, "masks", "bits", "texts"), 0))
    return sums | dict(counts) | {"spellings": {name: dict(one) for name, one in spellings.items()}}


def figures(sums: Mapping[str, Any]) -> dict[str, str]:
    """The counts as text."""
    tried, by_json = sums.get("bits_tried", 0), sums.get("bits_by_json", 0)
    return {
        "masks checked": f"{sums['masks']:,}, of {sums['bits']:,} bits",
        "bits against JSON alone": f"{sums['bits']:,}, of which {_share(by_json, sums['bits'])} "
        "begin no JSON text",
        "bits put to the validator": f"{tried:,}; {_share(sums.get('bits_undecided', 0), tried)} "
        "undecided",
        "under-constraint, proven": _a_million(sums["under"], sums["masks"]),
        "over-constraint, proven": _a_million(sums["over"], sums["masks"]),
        "whole texts": f"{sums['texts']:,}; {sums.get('texts_undecided', 0):,} undecided",
        "… wrongly taken, proven": f"{sums['texts_under']:,}",
        "… wrongly refused, proven": f"{sums['texts_over']:,}",
    }


def _a_million(num: int, masks: int) -> str:
    return f"{num:,}, {num * _A_MILLION / max(masks, 1):,.0f} per 10^6 masks"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def _spelling_rows(spellings: Mapping[str, Mapping[str, int]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("json.dumps", "instances", "taken", "in another key order")]
    return rows + [
        (style, *(f"{found[name]:,}" for name in ("tried", "taken", "reordered")))
        for style, found in spellings.items()
    ]


def page(sets: Mapping[str, Mapping[str, Any]], how: str) -> str:
    """The totals of several data sets as a Markdown page. how: the command, and what it ran on"""
    names = list(sets)
    rows = []
    for name in ("schemas", "refused", "schemas_wrong", "schemas_cut"):
        rows.append([_WORDS[name], *(f"{sets[one].get(name, 0):,}" for one in names)])
    by_set = {one: figures(sets[one]) for one in names}
    rows += [[what, *(by_set[one][what] for one in names)] for what in by_set[names[0]]]
    for style in sets[names[0]]["spellings"]:
        cells = (sets[one]["spellings"][style] for one in names)
        rows.append([f"taken as json.dumps writes it, {style}", *map(_taken, cells)])
    return f"{_PAGE_HEAD}\n{how}\n\n{markdown_table(['', *names], rows)}\n"


def _taken(found: Mapping[str, int]) -> str:
    more = f" (+ {found['reordered']:,} reordered)" if found["reordered"] else ""
    if not found["tried"]:
        return "–"
    return f"{found['taken']:,} of {found['tried']:,}{more}"


_WORDS = {
    "schemas": "schemas that are served",
    "refused": "refused",
    "schemas_wrong": "with a proven error",
    "schemas_cut": "cut by their time",
}
_PAGE_HEAD = """# Certificates

What `specguide grammars certify` finds of schemas of three public sets
([grammars](grammars.md#certificates) says what the words mean). This page is written by the
benchmark.
"""
