"""Owns what all tests share: which are skipped where, how hypothesis runs, tiny checkpoints,
real-world data."""

from __future__ import annotations

import asyncio
import gc
import inspect
import random
from pathlib import Path

import hypothesis
import pytest
import torch
import triton_interpreter

from specguide.cache import sizing
from specguide.host import env

KERNELS_ARE_INTERPRETED = triton_interpreter.runs_kernels()

# Test workers share a small machine; more threads each would only fight.
torch.set_num_threads(1)

# No deadlines, since a busy machine stalls now and then; derandomized, so that a change alone turns
# a test red.
hypothesis.settings.register_profile(
    "specguide",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("specguide")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        is_interpreted = KERNELS_ARE_INTERPRETED and "small" in item.keywords
        if "gpu" in item.keywords and not is_interpreted:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_sessionstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep Python's garbage collector from going through all tests again and again."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests that are coroutine functions run in an event loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    return True


@pytest.fixture(autouse=True, scope="module")
def small_caches(request: pytest.FixtureRequest):
    """Test processes share a GPU: no engine takes all that it has left."""
    patch = pytest.MonkeyPatch()
    if torch.cuda.is_available() and not request.module.__name__.endswith("test_cache_sizing"):
        available = sizing._available

        def little(config, needs, device) -> tuple[int, str]:
            if config.kv_cache_memory_bytes is not None:
                return available(config, needs, device)
            wanted = needs.page_bytes * needs.request_pages * needs.max_batch_size
            return min(wanted, 2 << 30), "tests give it"

        patch.setattr(sizing, "_available", little)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of a tiny random target and a head for it, to be read only."""
    from tiny import save_head, save_target  # imports transformers, which takes seconds

    folder = tmp_path_factory.mktemp("tiny")
    return save_target(folder / "target"), save_head(folder / "head")


@pytest.fixture(scope="module")
def llm(folders: tuple[Path, Path]):
    """The tiny target with its head, in default settings."""
    from tiny_engine import make

    llm = make(folders)
    yield llm
    llm.close()


@pytest.fixture(scope="session")
def mtp_head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a random MTP head for the tiny target."""
    from mtp_heads import save_tiny_head

    return save_tiny_head(tmp_path_factory.mktemp("mtp"))


@pytest.fixture(scope="session")
def drafter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a small model that drafts for the tiny target, now and then rightly."""
    from draft_models import save_drafter

    return save_drafter(tmp_path_factory.mktemp("drafter"))


@pytest.fixture(scope="session")
def models(folders: tuple[Path, Path], mtp_head: Path) -> dict[str, Path]:
    """Drafters of the tiny target, by method."""
    target, head = folders
    return {"eagle3": head, "mtp": mtp_head, "draft_model": target}


@pytest.fixture(scope="session")
def one_process() -> list[tuple[int, ...]]:
    """What the shipped target outputs in one process without drafts."""
    from requests_of_every_kind import plain_outputs

    return plain_outputs()


@pytest.fixture
def any_level(monkeypatch: pytest.MonkeyPatch):
    """Layouts of iterations come up in any order, where an engine chooses them."""
    from specguide.engine.levels.choice import LevelChoice

    rng, seen = random.Random(1), set()

    def choose(self, requests):
        level = rng.randrange(len(self.levels))
        seen.add(level)
        return level

    monkeypatch.setattr(LevelChoice, "_next", choose)
    yield
    assert len(seen) >= 2


@pytest.fixture(scope="module")
def server():
    """A live API server; see live_server."""
    from live_server import small_server

    server = small_server()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def client(server):
    """OpenAI's, of that server."""
    import openai
    from live_server import KEY

    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)


@pytest.fixture
def http(server):
    """A plain client of that server."""
    import httpx
    from live_server import KEY

    with httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
    ) as client:
        yield client


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real-world data sets."""
    folder = env.data_dir()
    if folder is None:
        pytest.skip("needs real-world data: set SPECGUIDE_DATA to its folder")
    return folder
