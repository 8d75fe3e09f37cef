"""Owns the conversion of sampling parameters, errors and deltas to messages and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from specguide import errors
from specguide.engine.serving import wire
from specguide.engine.serving.stream import RequestDelta
from specguide.errors import EngineError, InvalidGuide, InvalidParams, SpecguideError
from specguide.guide import Guide, Reasoning
from specguide.params import SamplingParams, Speculation
from specguide.request_records import RequestMetrics

_NEUTRAL = SamplingParams()
_OF_FRONTS = ("layout", "param")
"""Fields of a guide that the engine does not need."""
_PARTS = {"guide": Guide, "reasoning": Reasoning, "speculation": Speculation}
_KINDS = {
    name: one
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, SpecguideError)
}


def params_text(params: SamplingParams) -> str:
    """Sampling parameters as JSON, without defaults. Unlike MessagePack, JSON holds integers of any
    size and lone surrogates. Raises InvalidParams and InvalidGuide for functions, which cannot be
    sent to another process."""
    if params.logits_processors:
        raise InvalidParams(
            "logits_processors are Python functions, which the engine's process cannot call: use "
            "AsyncEngine",
            param="logits_processors",
        )
    if params.guide is not None and params.guide.matcher is not None:
        raise InvalidGuide(
            "a guide's matcher is a Python function, which the engine's process cannot call: use "
            "AsyncEngine",
            param="matcher",
        )
    if params.return_spans:
        raise InvalidParams(
            "return_spans does not work with an engine in a process of its own: use AsyncEngine",
            param="return_spans",
        )
    values = {field.name: getattr(params, field.name) for field in fields(params)}
    given = {name: value for name, value in values.items() if value != getattr(_NEUTRAL, name)}
    for name in given.keys() & _PARTS.keys():
        part = vars(given[name]).items()
        given[name] = {key: one for key, one in part if key[0] != "_" and key not in _OF_FRONTS}
    return json.dumps(given)


def params_of(text: str) -> SamplingParams:
    """The sampling parameters in a text of `params_text`. Raises UserError where they are wrong."""
    try:
        given: dict[str, Any] = json.loads(text)
        for name in given.keys() & _PARTS.keys():
            given[name] = _PARTS[name](**given[name])
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidParams(f"the message holds no valid SamplingParams: {error}") from None
    return SamplingParams.from_dict(given)


def error_data(error: SpecguideError) -> wire.ErrorData:
    """An error as data."""
    known = (one for one in type(error).__mro__ if one.__module__ == errors.__name__)
    plain = {
        name: _readable(value)
        for name, value in vars(error).items()
        if isinstance(value, str | int | float | None)
    }
    return wire.ErrorData(next(known).__name__, _readable(str(error)), plain)


def error_of(data: wire.ErrorData) -> SpecguideError:
    """The error that data describes; an EngineError where its kind is unknown."""
    kind = _KINDS.get(data.kind, EngineError)
    error = kind.__new__(kind, data.message)
    vars(error).update(data.fields)
    return error


def wire_delta(request: int, delta: RequestDelta) -> wire.Delta:
    """A delta for the wire."""
    details = (delta.logprobs, delta.prompt_logprobs, delta.iterations)
    return wire.Delta(
        request,
        delta.index,
        list(delta.token_ids),
        delta.text,
        None if delta.finish_reason is None else _end(delta),
        None if details == (None, None, None) else wire.Details(*map(_listed, details)),
    )


def delta_of(received: wire.Delta, text: str) -> RequestDelta:
    """The delta of a message. text: further text, which the front has made"""
    if received.end is None and received.details is None:  # true for nearly all deltas
        return RequestDelta(received.text + text, tuple(received.token_ids), index=received.index)
    end = received.end
    details = received.details or wire.Details()
    return RequestDelta(
        received.text + text,
        tuple(received.token_ids),
        finish_reason=end.finish_reason if end else None,
        stop_reason=end.stop_reason if end else None,
        error=error_of(end.error) if end and end.error else None,
        metrics=end.metrics if end else None,
        index=received.index,
        logprobs=_frozen(details.logprobs),
        prompt_logprobs=_frozen(details.prompt_logprobs),
        iterations=_frozen(details.iterations),
    )


def _end(delta: RequestDelta) -> wire.End:
    return wire.End(
        delta.finish_reason or "error",
        delta.stop_reason,
        None if delta.error is None else error_data(delta.error),
        delta.metrics or RequestMetrics(),
    )


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _frozen(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _readable(value: Any) -> Any:
    """A value with lone surrogates, which an error may quote from a request, replaced by "?"."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
