"""Owns `specguide serve`: the command that runs the API server of one model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specguide.cli.config_options import (
    CACHE,
    ENGINE,
    GUIDE,
    SPEC,
    TRANSFER,
    WITHOUT,
    ConfigOptions,
    Given,
    engine_config,
    flag_given,
    takes,
)
from specguide.config import TransferConfig
from specguide.errors import InvalidParams
from specguide.host.release import extra
from specguide.serve_ray.config import ReplicaConfig
from specguide.server.config import (
    API_KEYS_VARIABLE,
    SERVED_ENGINE,
    SERVED_GUIDES,
    Exposure,
    ServerConfig,
    model_name,
)

if TYPE_CHECKING:
    from specguide.server.processes.plans import ServicePlan

_SERVER = ConfigOptions(
    ServerConfig,
    "Server",
    {
        "model_name": "served_model_name",
        "model_aliases": "served_model_alias",
        "api_keys": "api_key",
    },
    {"model_name": None},
    {"api_keys": API_KEYS_VARIABLE},
)
_VLLM_KEY = "VLLM_API_KEY"
_EXPOSURE = ConfigOptions(Exposure, "Exposure")
_REPLICAS = ConfigOptions(ReplicaConfig, "Replicas", defaults={"replicas": None})
_ENGINE = replace(ENGINE, defaults=SERVED_ENGINE)
_GUIDE = replace(GUIDE, defaults=SERVED_GUIDES)


@takes(_SERVER, _EXPOSURE, _REPLICAS, WITHOUT, SPEC, _ENGINE, CACHE, TRANSFER, _GUIDE)
def serve(
    model: Annotated[
        Path | None, typer.Argument(help="Checkpoint folder; the shipped model when left out.")
    ] = None,
    *,
    model_option: Annotated[
        Path | None, typer.Option("--model", help="The same folder.", rich_help_panel="Model")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with options by their names; one of the command line counts instead.",
            rich_help_panel="Model",
        ),
    ] = None,  # ReadsFile takes it from the arguments
    given: Given,
) -> None:
    """Serve the OpenAI API over HTTP: chat, completions, structured output and tools."""
    from specguide.server.bodies.sampling_defaults import sampling_defaults
    from specguide.server.processes.plans import ServicePlan  # takes time to import
    from specguide.server.processes.supervisor import Supervisor

    if model is not None and model_option is not None:
        raise InvalidParams(
            "the model is given twice: leave --model out, also in the file of --config",
            param="model",
        )
    model = model or model_option
    _refuse_alone(_REPLICAS, given, "replicas", None)
    _refuse_alone(TRANSFER, given, "role", "both")
    exposed = given[Exposure]
    exposed["allowed_origins"] = tuple(
        chain.from_iterable(map(_origins, exposed["allowed_origins"]))
    )
    _refuse_other_keys(given[ServerConfig]["api_keys"])
    given[ServerConfig]["model_name"] = given[ServerConfig]["model_name"] or model_name(model)
    server = ServerConfig(**given[ServerConfig], exposure=Exposure(**exposed))
    engine = replace(
        engine_config(model, given, _GUIDE), transfer=TransferConfig(**given[TransferConfig])
    )
    plan = ServicePlan(engine, server)
    _tell_defaults(sampling_defaults(server, model))
    if given[ReplicaConfig]["replicas"] is not None:
        raise typer.Exit(_run_replicas(plan, ReplicaConfig(**given[ReplicaConfig]), _tell))
    raise typer.Exit(Supervisor(plan, _tell).run())


def _tell(text: str) -> None:
    """Print a message for the operator on standard error. If that fails, such as for a log on a
    full disk, the service goes on."""
    with suppress(OSError):
        typer.echo(text, err=True)


def _tell_defaults(defaults: Mapping[str, Any]) -> None:
    """Tell the operator the model's defaults for sampling, where they differ from those of OpenAI's
    API."""
    if defaults:
        values = ", ".join(f"{name} {value}" for name, value in defaults.items())
        _tell(
            f"sampling defaults from the model's generation_config.json: {values} "
            "(--sampling-defaults openai uses the defaults of OpenAI's API instead)"
        )


def _origins(written: str) -> list[str]:
    """One origin, or a JSON list of origins as in vLLM."""
    if not written.startswith("["):
        return [written]
    with suppress(json.JSONDecodeError):
        found = json.loads(written)
        if all(isinstance(one, str) for one in found):
            return list(found)
    raise InvalidParams(
        f"--allowed-origins {written!r} must be an origin or a JSON list of strings",
        param="allowed_origins",
    )


def _refuse_alone(source: ConfigOptions, given: Given, needed: str, left_out: object) -> None:
    """Raises InvalidParams for an option that does nothing without another one."""
    flag = flag_given(source, given[source.config])
    if flag is not None and given[source.config][needed] == left_out:
        raise InvalidParams(f"{flag} needs --{needed} beside it", param=flag[2:])


def _refuse_other_keys(keys: Collection[str]) -> None:
    """Raises InvalidParams where vLLM's variable has keys, and the server would ask for none."""
    if os.environ.get(_VLLM_KEY) and not keys:
        raise InvalidParams(
            f"the variable {_VLLM_KEY} is not read here, and the server would take requests "
            f"without a key: call it {API_KEYS_VARIABLE}, or unset it",
            param="api_keys",
        )


def _run_replicas(plan: ServicePlan, config: ReplicaConfig, tell: Callable[[str], None]) -> int:
    """Run replicas on Ray. Raises InvalidParams where Ray is not installed."""
    with extra("ray", "--replicas", "replicas"):
        from specguide.serve_ray.run import run_replicas
    return run_replicas(plan, config, tell)
