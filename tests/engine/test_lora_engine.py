"""Requests that choose LoRA adapters have the outputs of the models into which these were merged,
however the engine runs them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rank_threads
from lora_adapters import adapter, merged
from requests_of_every_kind import PATIENT, SCHEMA
from tiny_engine import generate

from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.config import CacheConfig, EngineConfig
from specguide.config.adapters import adapter_folders
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.engine.setup.checkpoint_identity import checkpoints, identity
from specguide.engine.setup.facts import resolved
from specguide.errors import InvalidParams

NAMES = (None, "first", "second")
PROMPTS = ["the same words before each of them, " * 3 + end for end in ("", "a", "b", "c", "d")]
PARAMS = [
    SamplingParams(max_tokens=12, ignore_eos=True),
    SamplingParams(max_tokens=12, temperature=0.9, seed=3),
    SamplingParams(max_tokens=30, guide=Guide(json_schema=SCHEMA)),
    SamplingParams(max_tokens=3, logprobs=1, prompt_logprobs=0),
    SamplingParams(guide=Guide(choice=["ab", "b"]), faithful=True, temperature=1.0, seed=5),
]
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "eager": {"mixed_iterations": False, "max_batch_size": 2},
    "chunks": {"max_prefill_tokens": 20},
    "few pages": {"cache": CacheConfig(num_pages=24)},
    "two ranks": {"tensor_parallel_size": 2},
    "two stages": {"pipeline_parallel_size": 2},
}


def asked(name: str | None) -> list[SamplingParams]:
    return [replace(params, lora=name) for params in PARAMS]


def outputs(llm: LLM, *names: str | None) -> list[Any]:
    """The outputs of all requests with each adapter, all at once."""
    try:
        outs = llm.generate(
            PROMPTS * len(names), [params for name in names for params in asked(name)]
        )
        assert not any(out.error for out in outs), [out.error for out in outs]
        return [(out.token_ids, out.text) for out in outs]
    finally:
        llm.close()


def config(target: Path, adapters: list[str], **options: Any) -> EngineConfig:
    return EngineConfig(
        target, guide=PATIENT, lora_modules=tuple(adapters), dtype="float32", **options
    )


@pytest.fixture(scope="module")
def adapters(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("adapters")
    for seed, name in enumerate(("first", "second")):
        adapter(folder / name, folders[0], seed)
    return [f"{name}={folder / name}" for name in ("first", "second")]


@pytest.fixture(scope="module")
def expected(folders: tuple[Path, Path], adapters: list[str]) -> list[Any]:
    """Those of three models, each alone."""
    models = [folders[0]]
    for one in adapters:
        of = Path(one.partition("=")[2])
        models.append(merged(of.parent / f"{of.name}-merged", folders[0], of, lambda name: 2.0))
    found = [outputs(LLM.around(Engine(config(model, []))), None) for model in models]
    assert len({str(one) for one in found}) == 3
    return [output for of_model in found for output in of_model]


@pytest.mark.parametrize("way", WAYS)
def test_outputs_are_those_of_merged_models(
    way: str, folders: tuple[Path, Path], adapters: list[str], expected: list[Any]
) -> None:
    options = config(folders[0], adapters, **WAYS[way])
    llm = rank_threads.llm(options) if options.num_ranks > 1 else LLM.around(Engine(options))
    assert outputs(llm, *NAMES) == expected


@pytest.mark.parametrize(
    "spec",
    [
        SpecConfig("eagle3", num_draft_tokens=3),
        SpecConfig("eagle3", tree=DynamicTree(3, 3, 8)),
        SpecConfig("suffix", num_forced_tokens=4),
    ],
    ids=["chain", "tree", "suffix"],
)
def test_drafts_change_nothing(
    spec: SpecConfig, folders: tuple[Path, Path], adapters: list[str], expected: list[Any]
) -> None:
    spec = replace(spec, model=folders[1]) if spec.method == "eagle3" else spec
    found = outputs(LLM.around(Engine(config(folders[0], adapters, spec=spec))), *NAMES)
    greedy = [i for i in range(len(expected)) if i % len(PARAMS) != 1]  # sampling has other numbers
    assert [found[i] for i in greedy] == [expected[i] for i in greedy]


def test_cached_pages_are_of_one_adapter(folders: tuple[Path, Path], adapters: list[str]) -> None:
    llm = LLM.around(Engine(config(folders[0], adapters)))
    params = [SamplingParams(max_tokens=2, lora=name) for name in NAMES]
    cached = [llm.generate(PROMPTS[0], one)[0].metrics.num_cached for one in params * 2]
    assert cached[:3] == [0, 0, 0] and min(cached[3:]) > 90
    of_each = {"requests": 2, "iterations": 2, "tokens": 2}  # first tokens are of prefills
    assert llm.stats().adapters == {"first": of_each, "second": of_each}
    llm.close()


def test_hosts_compare_their_adapters(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Ranks with different adapters would give wrong outputs and no error."""
    of = adapter(tmp_path / "it", folders[0])
    given = resolved(config(folders[0], [f"it={of}"]))

    def identities() -> list[str]:
        return list(map(identity, checkpoints(given)))

    first = identities()
    adapter(of, folders[0], seed=1)
    trained = identities()
    adapter(of, folders[0], seed=1, lora_alpha=9)
    assert len({*map(str, (first, trained, identities()))}) == 3


def test_an_adapter_that_is_not_there(folders: tuple[Path, Path], adapters: list[str]) -> None:
    llm = LLM(folders[0], lora_modules=dict(one.split("=") for one in adapters))
    params = [SamplingParams(max_tokens=2, lora=name) for name in ("third", "first")]
    refused, served = generate(llm, ["a", "a"], params)
    assert "has 'first', 'second'" in str(refused.error) and served.error is None


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (("sql",), "NAME=FOLDER, found 'sql'"),
        (("=x",), "NAME=FOLDER"),
        (('{"name": "a"}',), "NAME=FOLDER"),
        (("a=x", '{"name": "a", "path": "y"}'), "two adapters called 'a'"),
    ],
)
def test_names_that_cannot_be_read(modules: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidParams, match=message):
        EngineConfig(lora_modules=modules)


@pytest.mark.parametrize("modules", ["sql=x", None, {"sql": 5, 3: ""}, [Path("x")]])
def test_what_is_no_list_of_adapters(modules: Any) -> None:
    with pytest.raises(InvalidParams, match="lora_modules must") as told:
        LLM(lora_modules=modules)
    assert "found 's'" not in str(told.value)


def test_a_folder_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves the ~ of NAME=~/FOLDER as it is."""
    monkeypatch.setenv("HOME", "/home/it")
    assert adapter_folders(["sql=~/sql", "b=b~"]) == {"sql": Path("/home/it/sql"), "b": Path("b~")}
