"""Owns `specguide generate`: it prints one answer under a grammar, and its figures."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.cli.config_options import (
    CACHE,
    ENGINE,
    GUIDE,
    SPEC,
    WITHOUT_SPEC,
    Given,
    engine_config,
    takes,
)
from specguide.cli.options import SAMPLING, WRITTEN, GuideFiles, Model, write_text
from specguide.errors import InvalidParams
from specguide.params import SamplingParams
from specguide.request import RequestOutput

_ENGINE = replace(ENGINE, names={**ENGINE.names, "max_batch_size": None, "trace": None})

_GRAMMAR_TIMES = ("grammar_s", "grammar_hidden_s", "grammar_exposed_s")


@takes(WRITTEN, SAMPLING, WITHOUT_SPEC, SPEC, _ENGINE, CACHE, GUIDE)
def generate(
    text: Annotated[
        str | None, typer.Argument(help="The input text; read from standard input when left out.")
    ] = None,
    *,
    model: Model = None,
    trace: Annotated[
        Path | None, typer.Option(help="File for a timeline to open in https://ui.perfetto.dev.")
    ] = None,
    json_stats: Annotated[
        bool, typer.Option("--json-stats", help="Print the figures as one JSON line.")
    ] = False,
    given: Given,
) -> None:
    """Answer TEXT under a grammar: the output on standard output, one line of figures on standard
    error."""
    from specguide.llm import LLM  # brings torch in; --help stays quick

    params = SamplingParams(**given[SamplingParams], guide=GuideFiles(**given[GuideFiles]).guide())
    asked = _input(text)
    if trace is not None:
        write_text(trace, "")  # if it cannot be written, that is reported before all the work
    config = replace(engine_config(model, given), max_batch_size=1, trace=trace is not None)
    llm = LLM.of(config)
    start = time.perf_counter()
    if llm.tokenizer.chat_template is None:
        typer.echo("the model has no chat template: the text is continued as it is", err=True)
        (output,) = llm.generate(asked, params)
    else:
        (output,) = llm.chat([{"role": "user", "content": asked}], params)
    seconds = time.perf_counter() - start
    stats = llm.stats()
    llm.close()
    if output.error is not None:
        raise output.error
    typer.echo(output.text)
    if trace is not None:
        llm.write_trace(trace)
    figures = _figures(output, seconds) | {name: getattr(stats, name) for name in _GRAMMAR_TIMES}
    typer.echo(json.dumps(figures) if json_stats else _line(figures), err=True)


def _input(text: str | None) -> str:
    """The argument, or the text of standard input. Raises InvalidParams where both are empty."""
    text = sys.stdin.read() if text is None else text
    if not text.strip():
        raise InvalidParams(
            "the input text is empty; give it as an argument or on standard input", param="prompt"
        )
    return text


def _figures(output: RequestOutput, seconds: float) -> dict[str, Any]:
    return {
        **asdict(output.metrics),
        "acceptance_length": output.metrics.acceptance_length,
        "finish_reason": output.finish_reason,
        "tokens_per_s": output.metrics.output_tokens / seconds,
    }


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
