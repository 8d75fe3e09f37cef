"""Owns `specguide generate`: one answer under a grammar, and its figures."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.cli.config_options import CACHE, ENGINE, GUIDE, SPEC, Given, engine_config, takes
from specguide.cli.options import MaxTokens, Model, NoSpec, Schema, Seed, Temperature, read_text
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.params import SamplingParams

_ENGINE = replace(ENGINE, names={**ENGINE.names, "max_batch_size": None, "trace": None})


@takes(SPEC, _ENGINE, CACHE, GUIDE)
def generate(
    text: Annotated[
        str | None, typer.Argument(help="The input text; read from standard input when left out.")
    ] = None,
    *,
    schema: Schema = None,
    regex: Annotated[
        str | None,
        typer.Option(
            help="Regular expression that the whole output must match.",
            rich_help_panel="What is written",
        ),
    ] = None,
    grammar: Annotated[
        Path | None,
        typer.Option(help="File with an EBNF or Lark grammar.", rich_help_panel="What is written"),
    ] = None,
    max_tokens: MaxTokens = 512,
    model: Model = None,
    no_spec: NoSpec = False,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a timeline there, for https://ui.perfetto.dev.")
    ] = None,
    json_stats: Annotated[
        bool, typer.Option("--json-stats", help="Print the figures as one JSON line.")
    ] = False,
    given: Given,
) -> None:
    """Answer TEXT under a grammar: the output on standard output, one line of figures on standard
    error."""
    from specguide.llm import LLM  # brings torch in; --help stays quick

    params = SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        guide=_guide(schema, regex, grammar),
    )
    text = sys.stdin.read() if text is None else text
    if not text.strip():
        raise InvalidParams(
            "the input text is empty; give it as an argument or on standard input", param="prompt"
        )
    llm = LLM.of(
        replace(
            engine_config(model, given, no_spec=no_spec), max_batch_size=1, trace=trace is not None
        )
    )
    start = time.perf_counter()
    (output,) = llm.chat([{"role": "user", "content": text}], params)
    seconds = time.perf_counter() - start
    stats = llm.stats()
    llm.close()
    if output.error is not None:
        raise output.error
    typer.echo(output.text)
    if trace is not None:
        llm.write_trace(trace)
    figures = {
        **asdict(output.metrics),
        "acceptance_length": output.metrics.acceptance_length,
        "finish_reason": output.finish_reason,
        "tokens_per_s": output.metrics.output_tokens / seconds,
        "grammar_s": stats.grammar_s,
        "grammar_hidden_s": stats.grammar_hidden_s,
        "grammar_exposed_s": stats.grammar_exposed_s,
    }
    typer.echo(json.dumps(figures) if json_stats else _line(figures), err=True)


def _guide(schema: Path | None, regex: str | None, grammar: Path | None) -> Guide | None:
    given: dict[str, Any] = {
        "json_schema": schema and read_text(schema),
        "regex": regex,
        "grammar": grammar and read_text(grammar),
    }
    given = {kind: value for kind, value in given.items() if value is not None}
    return Guide(**given) if given else None


def _line(figures: dict[str, Any]) -> str:
    hidden_s, exposed_s = figures["grammar_hidden_s"], figures["grammar_exposed_s"]
    grammar = f"{figures['grammar_s'] * 1e3:.1f} ms in callbacks"
    if exposed_s is not None:
        grammar = f"{hidden_s * 1e3:.1f} ms hidden, {exposed_s * 1e3:.1f} ms exposed"
    return (
        "{output_tokens} tokens · {num_iterations} iterations · acceptance length "
        "{acceptance_length:.2f} · "
        "{tokens_per_s:.0f} tokens/s · grammar {grammar}"
    ).format(**figures, grammar=grammar)
