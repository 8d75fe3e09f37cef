"""What a file adds is entered in the registry beside it: nobody would find it otherwise, and say
nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from specguide import models
from specguide.layers import quantization
from specguide.layers.quantization import QUANTIZATIONS
from specguide.layers.quantization.cache_scheme import read_cache_scheme
from specguide.models import FAMILIES
from specguide.models.family import Family
from specguide.server import apis
from specguide.server.app import APIS
from specguide.speculation import drafters


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{found.name}")


def test_families() -> None:
    """Else their checkpoints run through transformers' modules."""
    found = [
        one
        for module in modules(models)
        for one in vars(module).values()
        if isinstance(one, Family)
    ]
    assert found
    missing = [one.architectures for one in found if one not in FAMILIES.values()]
    assert missing == []


def test_quantizations() -> None:
    """What reads the fields of a checkpoint's quantization says so by its name."""
    found = {
        one
        for module in modules(quantization)
        for name, one in vars(module).items()
        if name.startswith("read") and getattr(one, "__module__", "") == module.__name__
    }
    assert found - {read_cache_scheme} == set(QUANTIZATIONS.values())


def test_drafters() -> None:
    """Their methods are known to a configuration before anything of the engine is imported."""
    code = "from specguide.drafts.methods import method_names; print(*method_names())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = [module.DRAFTER for module in modules(drafters) if hasattr(module, "DRAFTER")]
    assert found
    for drafter in found:
        assert drafters.drafter_named(drafter.method.name) is drafter
        assert drafter.method.name in told.stdout.split()


def test_apis() -> None:
    found = [module.API for module in modules(apis) if hasattr(module, "API")]
    assert found and all(api in APIS for api in found)
