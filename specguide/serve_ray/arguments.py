"""Owns the arguments of the Ray Serve application, as they are in a deployment's YAML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from specguide.config import CacheConfig, EngineConfig, GuideConfig, SpecConfig, TransferConfig
from specguide.errors import InvalidParams
from specguide.serve_ray.config import ReplicaConfig
from specguide.server.config import (
    API_KEYS_VARIABLE,
    SERVED_ENGINE,
    SERVED_GUIDES,
    Exposure,
    ServerConfig,
    model_name,
)
from specguide.server.processes.plans import ServicePlan

_SECTIONS: dict[str, type[Any]] = {
    "engine": EngineConfig,
    "spec": SpecConfig,
    "cache": CacheConfig,
    "guide": GuideConfig,
    "transfer": TransferConfig,
    "server": ServerConfig,
    "exposure": Exposure,
}
_OF_THE_PROXY = {
    "server": ("host", "port"),
    "exposure": ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs"),
}
"""Fields by section that Ray's own configuration sets, so the arguments must not set them."""


def plans_of(args: Mapping[str, Any]) -> tuple[ServicePlan, ReplicaConfig]:
    """The plan and the replicas for the arguments of `specguide.serve_ray:app`.

    args: fields of ReplicaConfig; and under `engine`, `spec`, `cache`, `guide`, `transfer`,
          `server` and `exposure` the fields of these configurations. `spec: null` decodes without
          drafts, `guide: null` refuses guides; without `spec` the shipped model has its draft head.
          Texts are read as JSON, since Ray Serve's command line gives all arguments as texts

    Raises InvalidParams for unknown or wrong arguments.
    """
    args = {name: _value(name, given) for name, given in args.items()}
    sections = {name: args.get(name, {}) for name in _SECTIONS}
    if sections["guide"] is not None:
        sections["guide"] = {**SERVED_GUIDES, **sections["guide"]}
    _refuse_what_the_proxy_has(sections)
    _refuse_sections_within(sections)
    replicas: ReplicaConfig = _made(
        ReplicaConfig, {name: value for name, value in args.items() if name not in _SECTIONS}, ""
    )
    parts = {
        name: None if given is None else _made(_SECTIONS[name], given, f"{name}.")
        for name, given in sections.items()
        if name not in ("engine", "server")
    }
    engine = {**SERVED_ENGINE, **(sections["engine"] or {})}
    if "spec" not in args and engine.get("model") is not None:
        parts["spec"] = None
    exposure = parts.pop("exposure")
    model = engine.get("model")
    server = {
        "model_name": model_name(model),
        "api_keys": os.environ.get(API_KEYS_VARIABLE, "").split(),
        **(sections["server"] or {}),
        "exposure": exposure,
    }
    return ServicePlan(
        _made(EngineConfig, {**engine, **parts}, "engine."),
        _made(ServerConfig, server, "server."),
    ), replicas


def _refuse_what_the_proxy_has(sections: Mapping[str, Any]) -> None:
    for section, names in _OF_THE_PROXY.items():
        given = next((name for name in names if name in (sections[section] or {})), None)
        if given is not None:
            raise InvalidParams(
                f"{section}.{given} would do nothing, since Ray's proxy accepts the connections: "
                f"set {given} in the http_options of Ray Serve",
                param=given,
            )


def _refuse_sections_within(sections: Mapping[str, Any]) -> None:
    for section, given in sections.items():
        within = next((name for name in given or {} if name in _SECTIONS), None)
        if within is not None:
            raise InvalidParams(
                f"{section}.{within} is a section of its own: write {within} next to {section}",
                param=within,
            )


def _value(name: str, given: Any) -> Any:
    """A section's value, read as JSON where it is a text. Raises InvalidParams for a section that
    is not a mapping."""
    try:
        value = json.loads(given) if isinstance(given, str) else given
    except json.JSONDecodeError:
        value = given
    if name in _SECTIONS and not isinstance(value, Mapping | None):
        raise InvalidParams(f"{name} must be a mapping, found {given!r}", param=name)
    return value


def _made(config: type[Any], given: Mapping[str, Any], section: str) -> Any:
    names = [entry.name for entry in fields(config)]
    strange = next((name for name in given if name not in names), None)
    if strange is not None:
        known = [name for name in names if name not in _SECTIONS]
        known += [] if section else _SECTIONS
        raise InvalidParams(
            f"{section}{strange} is unknown; known: {', '.join(known)}", param=strange
        )
    tuples = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return config(**{**given, **tuples})
