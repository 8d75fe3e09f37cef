"""Owns the diagnosis that `specguide doctor` prints: what was found here, and how to get what is
missing."""

from __future__ import annotations

import importlib.metadata
import platform
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    needed: specguide does not work without it
    remedy: what to do where it is missing
    """

    name: str
    ok: bool
    what: str
    needed: bool = True
    remedy: str = ""


def diagnose() -> list[Finding]:
    """Look for everything that specguide uses; never raises."""
    return [
        finding
        for check in (_python, _temporary, _extension, _cuda, _backends, _shipped_model)
        for finding in _safely(check)
    ]


def _safely(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    # a broken installation breaks in its own ways; report it like any finding
    except Exception as error:
        is_damaged = not isinstance(error, OSError)
        return [
            Finding(
                check.__name__.strip("_").replace("_", " "),
                False,
                f"{type(error).__name__}: {error}",
                remedy="reinstall specguide: pip install --force-reinstall specguide"
                if is_damaged
                else "",
            )
        ]


def _python() -> Iterator[Finding]:
    yield Finding("python", True, platform.python_version())
    yield Finding("torch", True, importlib.metadata.version("torch"))


def _temporary() -> Iterator[Finding]:
    try:
        yield Finding("temporary folder", True, tempfile.gettempdir())
    except FileNotFoundError as error:
        remedy = "set TMPDIR to a folder that can be written; in a container, mount one at /tmp"
        yield Finding("temporary folder", False, error.strerror or str(error), remedy=remedy)


def _extension() -> Iterator[Finding]:
    from specguide import native

    yield Finding("native core", True, str(native.GrammarExecutor.__module__))


def _cuda() -> Iterator[Finding]:
    import torch

    from specguide import native

    reason = native.cuda_unavailable_reason()
    yield Finding("CUDA driver", reason is None, reason or "entry points found", needed=False)
    found = torch.cuda.is_available()
    yield Finding(
        "GPU",
        found,
        torch.cuda.get_device_name() if found else "none; running on the CPU",
        needed=False,
    )


def _backends() -> Iterator[Finding]:
    from specguide.guided.backends import BACKENDS
    from specguide.guided.compile import backend_report

    report = backend_report()
    packages = {name: spec.library.package for name, spec in BACKENDS.items()}
    for status in report:
        how = "native" if status.native else f"not native: {status.reason}"
        package = None if status.native else packages[status.name]
        remedy = f"install {package} in the version range of pyproject.toml" if package else ""
        yield Finding(
            f"grammar backend {status.name}",
            status.native,
            f"{status.version or 'not installed'}, {how}",
            needed=False,
            remedy=remedy,
        )
    if not any(status.version for status in report):
        names = " ".join(filter(None, packages.values()))
        yield Finding("grammar backends", False, "none installed", remedy=f"pip install {names}")


def _shipped_model() -> Iterator[Finding]:
    from specguide.config import EngineConfig, SpecConfig
    from specguide.engine.executors.local import LocalExecutor
    from specguide.engine.setup.facts import resolved

    config = EngineConfig(spec=SpecConfig(), max_batch_size=1)
    capabilities = LocalExecutor.load(resolved(config)).capabilities
    yield Finding(
        "shipped model",
        True,
        f"vocabulary of {capabilities.vocab_size}, context of {capabilities.max_model_len} tokens",
    )
