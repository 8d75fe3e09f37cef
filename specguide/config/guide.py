"""Owns the settings of guided decoding: what grammars may cost, and how they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidParams
from specguide.guide import KEY_ORDERS
from specguide.guide.schema_documents import schema_documents
from specguide.inputs.field_values import check_types, converted

GUIDE_CALLBACKS = ("native", "polling")
MOST_BYTES = 1 << 60
"""Largest memory limit that can be set for a process, on top of what the process has."""
_HOUR_US = 3_600_000_000
_RANGES: Mapping[str, tuple[int, float]] = {
    "max_source_bytes": (1, math.inf),
    "max_depth": (0, math.inf),
    "max_values": (1, math.inf),
    "max_rules": (1, math.inf),
    "max_compile_bytes": (1, MOST_BYTES),
    "cache_bytes": (0, math.inf),
    "num_compile_threads": (1, 1024),
    "deadline_us": (1, _HOUR_US),
    "target_wait_us": (0, _HOUR_US),
    "draft_wait_us": (0, _HOUR_US),
    "num_threads": (1, 1024),
    "max_whitespace": (0, 1 << 16),
    "max_indent": (0, 1 << 16),
    "max_schema_steps": (1, math.inf),
}
"""The least and the greatest value of each number."""


@dataclass(frozen=True)
class GuideConfig:
    """How grammars are compiled and run.

    backend:               name of a grammar backend; "auto" chooses one by evidence for each guide
    max_source_bytes:      largest guide, bytes of canonical text
    max_depth:             deepest nesting of a schema
    max_values:            most values in a schema's JSON, and most choices
    max_rules:             most rules of a grammar
    max_schema_steps:      most steps in all for rewriting a guide, such as a schema, into a form
                           that backends enforce; a million steps take about a second, in which
                           other threads run slower
    compile_timeout_s:     longest compile, seconds
    isolate_compiles:      compile a new guide in a process of its own first, which is killed where
                           it exceeds compile_timeout_s or max_compile_bytes; the engine compiles it
                           only after that has gone well. For guides of strangers; the default of
                           `specguide serve`. False: compile it on a thread, which cannot be stopped
                           and whose memory has no limit
    max_compile_bytes:     most memory that one compile may take, bytes; with isolate_compiles
    cache_bytes:           budget of the compiled-grammar cache, bytes
    num_compile_threads:   grammars that are compiled at once; with isolate_compiles, as many slow
                           compiles may run beside these
    num_threads:           worker threads of the grammar executor; left out: from the machine
    deadline_us:           longest wait of a callback for any row, microseconds
    target_wait_us:        longest wait for late target rows, microseconds, once the target has
                           reached its last matrix product; a slot whose rows come later is held.
                           Left out: on a GPU the time of an iteration divided by its requests,
                           which is what holding one of them costs; on a CPU deadline_us
    draft_wait_us:         longest wait for late drafter rows, microseconds, once the drafter's step
                           needs them; without a row the drafter guesses. Left out: 20 on a GPU,
                           deadline_us on a CPU
    max_whitespace:        most whitespace characters between two JSON tokens; 0: none, JSON is
                           compact. Not for schemas inside of grammars, which say it themselves
    max_indent:            most spaces, or tabs, of indentation behind a newline between two JSON
                           tokens; a newline with indentation may be longer than max_whitespace,
                           unless that is 0
    key_order:             order of a JSON object's properties where its guide does not say:
                           "schema": the schema's order, other properties after these, and any order
                           where a schema can only be enforced so; "any": any order, each property
                           once
    schema_documents:      JSON Schemas that guides may refer to: a mapping from the URIs that a
                           `$ref` names, or the path of a JSON file with such a mapping; nothing is
                           ever fetched. Not for schemas inside of grammars
    assert_formats:        strings must match the `format` of their JSON Schema; False: `format` is
                           an annotation, as validators treat it by default. Not for schemas inside
                           of grammars
    allow_truncation:      guided outputs may be cut off by max_tokens, whatever a request says;
                           else they end in time
    callbacks:             how CUDA calls the grammar: "native": host functions; "polling": a thread
                           that polls for calls and keeps a core busy while iterations run. Left
                           out: polling on a GPU, where host functions may be called late, else
                           native
    """

    backend: str = "auto"
    max_source_bytes: int = 1 << 20
    max_depth: int = 128
    max_values: int = 20_000
    max_rules: int = 5000
    max_schema_steps: int = 1_000_000
    compile_timeout_s: float = 10.0
    isolate_compiles: bool = False
    max_compile_bytes: int = 256 << 20
    cache_bytes: int = 512 << 20
    num_compile_threads: int = 2
    num_threads: int | None = None
    deadline_us: int = 20_000
    target_wait_us: int | None = None
    draft_wait_us: int | None = None
    max_whitespace: int = 8
    max_indent: int = 64
    key_order: str = "schema"
    schema_documents: Mapping[str, Any] | str | None = converted(None, schema_documents)
    assert_formats: bool = True
    allow_truncation: bool = False
    callbacks: str | None = None

    def __post_init__(self) -> None:
        check_types(self)
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                words = f"at least {least}" if most == math.inf else f"{least} to {most}"
                raise InvalidParams(f"{name} must be {words}, found {value}", param=name)
        if not 0 < self.compile_timeout_s < 86_400:
            raise InvalidParams(
                "compile_timeout_s must be a time in seconds, above 0 and below a day; found "
                f"{self.compile_timeout_s}",
                param="compile_timeout_s",
            )
        if self.key_order not in KEY_ORDERS:
            raise InvalidParams(
                f"key_order {self.key_order!r} is unknown; known: {', '.join(KEY_ORDERS)}",
                param="key_order",
            )
        if self.callbacks not in (None, *GUIDE_CALLBACKS):
            raise InvalidParams(
                f"callbacks {self.callbacks!r} are unknown; known: {', '.join(GUIDE_CALLBACKS)}",
                param="callbacks",
            )
