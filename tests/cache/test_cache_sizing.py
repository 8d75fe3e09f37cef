"""How large a KV cache is made."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch

from specguide import LLM, CacheConfig, SamplingParams, SpecConfig
from specguide.cache import CacheNeeds, CacheSize, cache_size, sizing
from specguide.errors import InvalidParams

GIB = 1 << 30
NEEDS = CacheNeeds(
    page_bytes=1 << 20,
    request_pages=100,
    least_pages=100,
    max_model_len=1580,
    max_batch_size=8,
    activation_bytes=2 * GIB,
)
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch):
    """A card of 100 GiB that has 70 GiB free, 20 GiB being this process's weights."""
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (70 * GIB, 100 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 20 * GIB)


def test_on_a_gpu_the_cache_takes_what_the_others_leave(gpu):
    for share, gib in ((0.5, 28), (0.9, 68), (1.0, 68)):
        size = cache_size(CacheConfig(gpu_memory_utilization=share), NEEDS, CUDA)
        assert size.num_pages == gib * 1024, share


def test_on_a_cpu_it_takes_a_quarter_of_what_is_free_and_no_more_than_it_can_use(monkeypatch):
    monkeypatch.setattr(sizing.machine, "free_memory", lambda: 2 * GIB)
    assert cache_size(CacheConfig(), NEEDS, CPU).num_pages == 512
    monkeypatch.setattr(sizing.machine, "free_memory", lambda: 200 * GIB)
    assert cache_size(CacheConfig(), NEEDS, CPU).num_pages == 800


def test_a_size_that_is_given_is_taken(gpu):
    assert cache_size(CacheConfig(num_pages=7), NEEDS, CUDA).num_pages == 7
    assert cache_size(CacheConfig(kv_cache_memory_bytes=GIB), NEEDS, CUDA).num_pages == 1024


def test_pages_for_less_than_a_full_context_are_warned_of(gpu, caplog):
    assert cache_size(CacheConfig(num_pages=NEEDS.request_pages), NEEDS, CUDA) and not caplog.text
    behind = NEEDS.request_pages * CacheConfig().page_size - NEEDS.max_model_len
    cache_size(CacheConfig(num_pages=7), NEEDS, CUDA)
    assert f"more than about {7 * CacheConfig().page_size - behind} tokens of prompt" in caplog.text


def test_the_error_names_the_longest_context_that_finds_room(gpu):
    with pytest.raises(
        InvalidParams, match=r"set max_model_len to (\d+) or less, or raise kv_cache_memory_bytes"
    ) as error:
        cache_size(CacheConfig(kv_cache_memory_bytes=50 << 20), NEEDS, CUDA)
    longest = int(str(error.value).split("max_model_len to ")[1].split()[0])
    assert 0 < -(-(longest + 20) // 16) <= 50
    with pytest.raises(InvalidParams, match="leaves, beside the weights"):
        cache_size(CacheConfig(gpu_memory_utilization=0.1), NEEDS, CUDA)


@pytest.mark.parametrize("given", [{"num_pages": 9}, {"kv_cache_memory_bytes": 4_000_000}, {}])
@pytest.mark.parametrize("spec", [None, SpecConfig(num_draft_tokens=3)])
def test_a_context_that_is_to_fit_is_as_long_as_there_is_room(given, spec, caplog):
    llm = LLM(spec=spec, cache=CacheConfig(**given), max_model_len=-1, max_batch_size=2)
    length, pages = llm._engine.max_model_len, llm._engine.cache_size.num_pages
    if not given:
        assert length == 2048
    else:
        assert 2 < length < 2048 and 0 <= 16 * pages - length <= 16 and not caplog.text
    prompt, params = [9] * 5, SamplingParams(max_tokens=length - 5, ignore_eos=True)
    for out in llm.generate([prompt] * 2, params if given else replace(params, max_tokens=9)):
        assert out.error is None and len(out.token_ids) == (length - 5 if given else 9)
    (out,) = llm.generate([[9] * length], params)
    assert f"the context holds {length}, output included" in str(out.error)
    assert "raise max_model_len where it is below the model's own context" in str(out.error)
    llm.close()


def test_a_cache_without_room_for_any_context_is_refused():
    with pytest.raises(InvalidParams, match="is too small for any request: raise num_pages"):
        LLM(spec=SpecConfig(num_draft_tokens=16), max_model_len=-1, cache=CacheConfig(num_pages=1))
    with pytest.raises(InvalidParams, match=r"MiB; raise kv_cache_memory_bytes$"):
        LLM(max_model_len=-1, cache=CacheConfig(kv_cache_memory_bytes=100))


@pytest.mark.parametrize("given", [{"num_pages": 10**30}, {"kv_cache_memory_bytes": 71 * GIB}])
def test_a_size_for_which_there_is_no_memory_is_refused(gpu, given):
    with pytest.raises(InvalidParams, match="GiB of memory are free") as refusal:
        cache_size(CacheConfig(**given), NEEDS, CUDA)
    assert [refusal.value.param] == list(given)


@pytest.mark.parametrize(("num_bytes", "told"), [(3 * GIB // 2, "1.5 GiB"), (44 << 20, "44.0 MiB")])
def test_what_it_holds_is_told_in_words(num_bytes, told):
    size = CacheSize(
        num_pages=6400, page_size=16, num_bytes=num_bytes, max_model_len=4096, request_pages=260
    )
    rest = "102,400 tokens, that is 24.6 requests of full context (4,096 tokens)"
    assert str(size) == f"KV cache: {told}, {rest}"


@pytest.mark.parametrize(
    "wrong",
    [
        dict(page_size=0),
        dict(num_pages=0),
        dict(gpu_memory_utilization=0.0),
        dict(gpu_memory_utilization=1.1),
        dict(kv_cache_memory_bytes=-1),
    ],
)
def test_sizes_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidParams, match=next(iter(wrong))):
        CacheConfig(**wrong)


@pytest.mark.gpu
def test_weights_graphs_and_cache_together_keep_to_the_share():
    total, share = torch.cuda.mem_get_info()[1], 0.05
    llm = LLM(spec=SpecConfig(), max_batch_size=64, cache=CacheConfig(gpu_memory_utilization=share))
    torch.cuda.reset_peak_memory_stats()
    llm.warm_up()
    outputs = llm.generate(["a b c " * 100] * 128)
    assert all(output.error is None for output in outputs)
    assert 0.6 * share * total < torch.cuda.max_memory_reserved() < share * total
    llm.close()


@pytest.mark.gpu
@pytest.mark.parametrize("is_held", [False, True])
def test_one_engine_after_another_has_the_same_room(is_held):
    """Also where who closed one still holds it, and where the memory of one that is gone was not
    given back before the next one's weights are read."""
    cache, held, sizes = CacheConfig(gpu_memory_utilization=0.3), [], []
    for _ in range(3):
        with LLM(spec=SpecConfig(), cache=cache) as llm:
            sizes.append(llm._engine.cache_size.num_pages)
            assert llm.generate("a b c")[0].error is None
        if is_held:
            held.append(llm)
        del llm
        gc.collect()
    assert min(sizes) > 0.98 * max(sizes)
