"""Owns the conformance benchmark: which schemas a backend serves, and whether it serves them
correctly.

A schema's valid and invalid instances are fed to its grammar, first unchanged, in several
whitespace styles, then with their keys in any order. Random texts are drawn from the grammar as
well; all of these must be instances according to `jsonschema`.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from specguide.bench.conformance_cases import Case
from specguide.bench.instances import (
    BYTES,
    MAX_TEXTS,
    draw,
    in_orders,
    takes,
    takes_any,
    takes_in_some_order,
)
from specguide.bench.records import whole_lines
from specguide.bench.validation import violation
from specguide.config import GuideConfig
from specguide.errors import InvalidParams, SpecguideError
from specguide.guide import Guide
from specguide.guided.backends import AUTO, CompiledGrammar, backend_names, create_backend
from specguide.guided.compile import GrammarCompiler
from specguide.tokenizer.vocabulary import Vocabulary

_MOST_TEXTS_OF_INVALID = 10_000


class SchemaCompiler(Protocol):
    """Turns schemas into grammars over one vocabulary."""

    vocabulary: Vocabulary

    def compile(self, schema: Any) -> CompiledGrammar:
        """Raises SpecguideError if it refuses the schema, RuntimeError if a library fails."""
        ...

    def close(self) -> None:
        """Release its threads."""
        ...


class BackendCompiler:
    """A backend as requests use it, or "auto"."""

    def __init__(
        self, backend: str, vocabulary: Vocabulary = BYTES, key_order: str = "schema"
    ) -> None:
        self.vocabulary = vocabulary
        for name in backend_names():
            if backend in (AUTO, name):
                # this loads the library, which may take longer than a compile may
                create_backend(name, vocabulary)
        self._compiler = GrammarCompiler(
            vocabulary, GuideConfig(backend=backend, key_order=key_order)
        )
        self._compiler.compile(Guide(json_object=True))  # this binds the backend to the vocabulary

    def compile(self, schema: Any) -> CompiledGrammar:
        return self._compiler.compile(Guide(json_schema=schema))

    def close(self) -> None:
        self._compiler.close()


@dataclass(frozen=True)
class Trial:
    """What is done with each schema of a backend, and where its records are kept.

    make:    builds the compiler; called only if a record is missing
    draws:   random texts per schema
    made_by: the maker of a record, for the report
    path:    JSON Lines, one record per schema; an interrupted run is continued there
    orders:  random key orders in which an instance is tried; a valid one must be accepted in all of
             them. 0: it may be in the schema's order
    """

    make: Callable[[], SchemaCompiler]
    draws: int
    made_by: str
    path: Path
    orders: int = 0

    def records(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """The records of all cases, in order. Records that `path` lacks are measured and added to
        it."""
        known = self._known()
        keys = [self._key(case) for case in cases]
        missing = {key: case for key, case in zip(keys, cases, strict=True) if key not in known}
        if missing:
            with closing(self.make()) as compiler, self.path.open("a", encoding="utf-8") as file:
                for key, case in tqdm(
                    missing.items(), desc=self.path.stem, unit="schema", disable=None
                ):
                    known[key] = {
                        "key": key,
                        **measure(compiler, case, self.draws, self.orders),
                        "made_by": self.made_by,
                    }
                    file.write(json.dumps(known[key], ensure_ascii=False) + "\n")
                    file.flush()
        return [known[key] for key in keys]

    def _key(self, case: Case) -> str:
        """The key of a case; it changes when the schema or an instance is changed."""
        counts = [self.draws, self.orders] if self.orders else [self.draws]
        content = json.dumps([case.name, case.data_set, case.schema, case.instances, *counts])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def _known(self) -> dict[str, dict[str, Any]]:
        try:
            return {record["key"]: record for record in map(json.loads, whole_lines(self.path))}
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidParams(
                f"cannot continue {self.path}, as its records cannot be read: {error!r}; choose "
                "another --output",
                param="output",
            ) from error


def measure(compiler: SchemaCompiler, case: Case, draws: int, orders: int = 0) -> dict[str, Any]:
    """One record: which backend compiled the schema or why none did, and counts over its instances
    and random texts. orders: see Trial"""
    record: dict[str, Any] = {"name": case.name, "set": case.data_set}
    start = time.perf_counter()
    try:
        grammar = compiler.compile(case.schema)
    except (SpecguideError, RuntimeError) as error:
        keyword = getattr(error, "keyword", None)
        return {**record, "refused": keyword or type(error).__name__, "why": str(error)[:300]}
    record.update(compiled_by=grammar.backend, seconds=time.perf_counter() - start, faults=[])
    for instance, valid in case.instances if compiler.vocabulary is BYTES else ():
        taken = _how_taken(grammar, instance, case, orders, valid)
        _count(record, f"{'valid' if valid else 'invalid'}_{taken}")
        if not valid and taken != "refused":
            record["faults"].append(f"takes {json.dumps(instance)[:150]}")
    rng = random.Random(case.name)
    for _ in range(draws):
        _check_draw(grammar, case, rng, record, compiler.vocabulary)
    return record


def _how_taken(
    grammar: CompiledGrammar, instance: Any, case: Case, orders: int, valid: bool
) -> str:
    """ "taken", "reordered" or "refused"."""
    if orders:
        found = [takes(grammar, text) for text in in_orders(instance, case.name, orders)]
        if all(found) or (any(found) and not valid):
            return "taken"
        return "reordered" if any(found) else "refused"
    if takes_any(grammar, instance, case.schema):
        return "taken"
    # Invalid instances are refused in every order; with many optional keys there are too many
    # orders.
    most = MAX_TEXTS if valid else _MOST_TEXTS_OF_INVALID
    is_taken = takes_in_some_order(grammar, instance, case.schema, most)
    return "reordered" if is_taken else "refused"


def _check_draw(
    grammar: CompiledGrammar,
    case: Case,
    rng: random.Random,
    record: dict[str, Any],
    vocabulary: Vocabulary,
) -> None:
    try:
        text = draw(grammar.matcher(), rng, vocabulary=vocabulary)
    except RuntimeError as error:
        record["faults"].append(str(error).splitlines()[0][:150])
        _count(record, "texts_dead_end")
        return
    try:
        fault = None if text is None else violation(case.schema, text)
    except LookupError:
        _count(record, "texts_unjudged")
        return
    _count(
        record, "texts_cut" if text is None else "texts_valid" if fault is None else "texts_invalid"
    )
    if fault is not None:
        record["faults"].append(f"{fault[:100]}: {text!r}"[:250])


def _count(record: dict[str, Any], name: str) -> None:
    record[name] = record.get(name, 0) + 1
