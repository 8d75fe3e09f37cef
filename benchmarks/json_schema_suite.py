"""The required tests of the JSON-Schema-Test-Suite, one by one: how many does `auto` get right?

    SPECGUIDE_DATA=… python -m benchmarks.json_schema_suite [--remotes FOLDER] [--draft draft7]

A test is right where a valid instance is taken and an invalid one is not. A schema that is refused
has its tests wrong, but where it was refused because no value fits it. Instances may come in any
order of their keys. `format` is an annotation, as the suite has it.

--remotes is the suite's own folder of that name, whose files stand for the documents that schemas
refer to; the metaschemas of the drafts come with `jsonschema`. Prints a table and one JSON line;
exits with 1 where an invalid instance was taken.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema_specifications import REGISTRY

from benchmarks.common import argument_parser, data_path, emit, read_jsonl
from specguide.bench.conformance_cases import with_draft
from specguide.bench.instances import BYTES, takes_any, takes_in_some_order
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler

DRAFTS = ("draft2020-12", "draft7")
_HOST = "http://localhost:1234/"
"""Where the suite's schemas look for its remotes."""


def documents(remotes: Path | None, draft: str) -> dict[str, Any]:
    """The documents that schemas of a draft may refer to, by their URIs."""
    found = {uri: REGISTRY[uri].contents for uri in REGISTRY}
    if remotes is None:
        return found
    for path in remotes.rglob("*.json"):
        name = path.relative_to(remotes).as_posix()
        if name.startswith(f"{draft}/") or not name.startswith(("draft", "v1/")):
            found[_HOST + name] = json.loads(path.read_text("utf-8"))
    return found


def outcomes(draft: str, remotes: Path | None) -> Iterator[tuple[str, str]]:
    """The keyword of each required test, and "right", "refused schema", "refused instance" or
    "taken"."""
    config = GuideConfig(schema_documents=documents(remotes, draft), assert_formats=False)
    compiler = GrammarCompiler(BYTES, config)
    compiler.compile(Guide(json_object=True))  # binds the backend to the vocabulary
    known: dict[str, CompiledGrammar | SpecguideError] = {}
    for test in read_jsonl(data_path("json_schema_test_suite.jsonl")):
        if test["draft"] == draft and test["suite"] == "required":
            schema = with_draft(test["schema"], draft)
            key = json.dumps(schema)
            if key not in known:
                known[key] = _compiled(compiler, schema)
            yield test["keyword"], _outcome(known[key], schema, test)
    compiler.close()


def _compiled(compiler: GrammarCompiler, schema: Any) -> CompiledGrammar | SpecguideError:
    try:
        return compiler.compile(Guide(json_schema=schema))
    except SpecguideError as error:
        return error


def _outcome(found: CompiledGrammar | SpecguideError, schema: Any, test: dict[str, Any]) -> str:
    if isinstance(found, SpecguideError):
        is_false = "allows no value at all" in str(found)
        return "right" if is_false and not test["valid"] else "refused schema"
    data = test["data"]
    is_taken = takes_any(found, data, schema) or takes_in_some_order(found, data, schema)
    if is_taken == test["valid"]:
        return "right"
    return "taken" if is_taken else "refused instance"


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--remotes", type=Path, help="the suite's folder of that name")
    parser.add_argument("--draft", choices=DRAFTS, nargs="+", default=list(DRAFTS))
    args = parser.parse_args()
    result = {draft: _summary(list(outcomes(draft, args.remotes))) for draft in args.draft}
    for draft, counts in result.items():
        print(f"{draft}: {counts['right']} of {counts['tests']} right; wrong: {counts['wrong']}")
    is_whole = args.remotes is not None and args.draft == list(DRAFTS)
    config = {"draft": args.draft, "has_remotes": args.remotes is not None}
    emit("json_schema_suite", config=config, result=result, save=is_whole)
    raise SystemExit(1 if any(counts["taken"] for counts in result.values()) else 0)


def _summary(found: list[tuple[str, str]]) -> dict[str, Any]:
    counts = Counter(outcome for _, outcome in found)
    wrong = Counter(keyword for keyword, outcome in found if outcome != "right")
    return {
        "tests": len(found),
        **{name: counts[name] for name in ("right", "refused schema", "refused instance", "taken")},
        "wrong": dict(wrong.most_common()),
    }


if __name__ == "__main__":
    main()
