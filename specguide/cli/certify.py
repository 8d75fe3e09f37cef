"""Owns `specguide grammars certify`: it tells what is enforced of a schema and by which backend,
checked mask by mask."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.bench.config import CertifyConfig
from specguide.cli.config_options import ConfigOptions, Given, takes
from specguide.cli.options import bench_libraries, read_json, read_text
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guide.ready_grammars import MARK, ready_grammar, schema_text
from specguide.guided.backends import backend_choices

_CHECKED = ConfigOptions(CertifyConfig, "Options", known={"backends": ", ".join(backend_choices())})


@takes(_CHECKED)
def certify(
    schema: Annotated[
        str, typer.Argument(help="A file with a JSON schema, or @NAME of a ready one.")
    ],
    instances: Annotated[
        Path | None,
        typer.Option(
            help="Valid instances, one JSON text per line; left out: NAME.valid.jsonl beside SCHEMA"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
    *,
    given: Given,
) -> None:
    """Tell what is enforced of a schema and by which backend, and check its masks against a
    validator.

    Walks through the grammar over a vocabulary of bytes, along known instances and at random, and
    compares each mask with JSON and with the validator jsonschema. An error counts where it is
    proven: a mask allows a byte behind which no instance can follow, or forbids one with which an
    instance continues as json.dumps writes it. Where neither can be shown, a byte is undecided.
    Exits with 1 where there is a proven error.
    """
    with bench_libraries():
        from specguide.bench.certificate.certify import certify as checked
        from specguide.bench.certificate.enforcement import enforcement
        from specguide.bench.certificate.report import as_text
        from specguide.bench.conformance import BackendCompiler

    config = CertifyConfig(**given[CertifyConfig])
    value = _schema(schema)
    known = _instances(schema, instances)
    with closing(BackendCompiler(config.backend)) as compiler:
        grammar = compiler.compile(value)
    try:
        certificate = checked(grammar, value, known, config)
    except RecursionError:
        raise InvalidParams(f"{schema} or an instance is nested too deeply to be checked") from None
    rows = enforcement(value, grammar.backend)
    if as_json:
        record = {**asdict(certificate), "enforced": [one._asdict() for one in rows]}
        typer.echo(json.dumps(record, ensure_ascii=False))
    else:
        typer.echo(f"{schema}: {as_text(certificate, rows)}")
    if certificate.num_errors:
        raise typer.Exit(1)


def _schema(name: str) -> Any:
    """The schema of a file or of a ready grammar. Raises InvalidParams for a file that cannot be
    read, InvalidGuide for an invalid schema."""
    value = json.loads(schema_text(name)) if name.startswith(MARK) else read_json(Path(name))
    if not isinstance(value, dict | bool):
        raise InvalidParams(f"{name} is not a JSON schema: it must be an object, true or false")
    Guide(json_schema=value)
    return value


def _instances(name: str, given: Path | None) -> list[Any]:
    """The instances in a file, one a line. Raises InvalidParams where one is not JSON."""
    path = given
    if path is None and name.startswith(MARK):
        path = ready_grammar(name).path.with_suffix(".valid")
    elif path is None:
        path = Path(name).with_suffix(".valid.jsonl")
        if not path.exists():
            return []
    try:
        return [json.loads(line) for line in read_text(path).split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InvalidParams(f"each line of {path} must be valid JSON: {error}") from error
