"""Owns the keyword arguments of LLM and of its calls beyond its own parameters: fields of
CacheConfig, parameters of other engines, and parameters that belong elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from specguide.config.engine import CacheConfig, EngineConfig, TransferConfig
from specguide.config.guide import GuideConfig
from specguide.config.spec import SpecConfig
from specguide.other_engines import (
    OTHER_CALL_OPTIONS,
    OTHER_LLM_OPTIONS,
    OTHER_STREAM_OPTIONS,
    OtherOption,
    without_others,
)
from specguide.params import SamplingParams


def _names(config: type[Any]) -> set[str]:
    return {entry.name for entry in fields(config)}


_OF_CACHE = _names(CacheConfig)
_PARAMETERS = (_names(EngineConfig) | _OF_CACHE | {"guide_backend"}) - {"transfer"}
_ELSEWHERE = (
    (SamplingParams, "give it with each request: SamplingParams({}=…)"),
    (SpecConfig, "use spec=SpecConfig({}=…)"),
    (GuideConfig, "use guide=GuideConfig({}=…)"),
    (TransferConfig, "use LLM.of(EngineConfig(transfer=TransferConfig({}=…)))"),
)
"""Where parameters that LLM does not have belong."""


def cache_config(cache: CacheConfig | None, given: Mapping[str, Any]) -> CacheConfig:
    """The cache's configuration, with the fields that were given one by one.

    Raises InvalidParams for a parameter of another engine, and TypeError for an unknown one; both
    say what to do. A `cache` of another type is returned as it is: EngineConfig refuses it.
    """
    rest = without_others(OTHER_LLM_OPTIONS, given, _in_python)
    for name in rest:
        if name not in _OF_CACHE:
            raise TypeError(f"LLM has no parameter {name!r}{_remedy(name)}")
    if cache is None:
        return CacheConfig(**rest)
    return replace(cache, **rest) if isinstance(cache, CacheConfig) else cache


def check_call(
    others: Mapping[str, Any],
    options: Mapping[str, OtherOption] = OTHER_CALL_OPTIONS,
    owner: str = "LLM",
) -> None:
    """Raises InvalidParams for a parameter of another engine's call, and TypeError for the rest.
    options: the other engine's parameters; owner: the class that is called"""
    for name in without_others(options, others, str):
        is_sampled = name in _names(SamplingParams)
        remedy = f": use params=SamplingParams({name}=…)" if is_sampled else ""
        raise TypeError(f"{owner} has no parameter {name!r} of a call{remedy}")


def check_stream(ids: Sequence[Any], others: Mapping[str, Any]) -> None:
    """See `check_call`, for AsyncEngine. ids: arguments after the parameters; in vLLM's call this
    is the request's id"""
    named = {"request_id": ids[0]} if ids else {}
    check_call({**others, **named}, OTHER_STREAM_OPTIONS, "AsyncEngine")


def _remedy(name: str) -> str:
    for config, remedy in _ELSEWHERE:
        if name in _names(config):
            return f": {remedy.format(name)}"
    near = get_close_matches(name, _PARAMETERS)
    return f"; similar names: {', '.join(near)}" if near else ""


def _in_python(name: str) -> str:
    if name == "spec":
        return "spec=SpecConfig(…)"
    if name in _names(SpecConfig) - _PARAMETERS:
        return f"spec=SpecConfig({name}=…)"
    is_ours = name in _PARAMETERS or name in OTHER_LLM_OPTIONS
    return name if is_ours else f"`specguide serve --{name.replace('_', '-')}`"
