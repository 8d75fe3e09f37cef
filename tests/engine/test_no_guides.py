"""An engine without guides: nothing of the grammar in it, and every guide refused by name."""

from __future__ import annotations

import pytest
import torch
from tiny import save_target
from tiny_engine import K, generate, make

from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidParams
from specguide.guided.grammar_stream.no_grammar import NoCompiler, NoGrammar
from specguide.guided.grammar_stream.stream import GrammarCounters
from specguide.native import ExecutorCounters

PROMPTS = ["ab {}", "a", "c: b", "{abc}", "b\nb"]
PARAMS = [
    SamplingParams(max_tokens=16, ignore_eos=True),
    SamplingParams(max_tokens=16, temperature=0.9, seed=1),
    SamplingParams(max_tokens=12, temperature=0.7, top_k=9, min_tokens=5, seed=2),
    SamplingParams(max_tokens=12, bad_words=("a", "bc"), repetition_penalty=1.2),
    SamplingParams(max_tokens=8, logprobs=2, prompt_logprobs=1),
]


def told(outputs) -> list[tuple]:
    assert [out.error for out in outputs] == [None] * len(outputs)
    return [(out.token_ids, out.finish_reason, out.text) for out in outputs]


@pytest.mark.parametrize(
    "options",
    [dict(), dict(spec=False), dict(lag=2), dict(trace=True), dict(max_prefill_tokens=4)],
    ids=str,
)
def test_outputs_are_those_of_free_requests(folders, options):
    with_guides, without = make(folders, **options), make(folders, guide=None, **options)
    expected, outputs = (generate(llm, PROMPTS, PARAMS) for llm in (with_guides, without))
    assert told(outputs) == told(expected)


def test_nothing_of_the_grammar_is_there(folders):
    llm = make(folders, guide=None, trace=True)
    engine = llm._engine
    assert isinstance(engine._executor.grammar, NoGrammar)
    assert isinstance(engine._admission.compiler, NoCompiler)
    llm.warm_up()
    llm.generate(PROMPTS[:2], PARAMS[:1] * 2)
    stats = llm.stats()
    assert set(stats.grammar.values()) == {0}
    assert stats.grammar_s == stats.grammar_exposed_s == 0.0
    tracks = {span.track for span in llm.spans()}
    assert "forward stream" in tracks and not any("grammar" in track for track in tracks)
    llm.close()


def test_a_guide_is_refused_and_its_neighbour_is_not(folders):
    llm = make(folders, guide=None)
    params = [SamplingParams(guide=Guide(regex="a+")), SamplingParams(max_tokens=4)]
    refused, free = llm.generate(PROMPTS[:2], params)
    assert isinstance(refused.error, InvalidParams) and refused.error.param == "guide"
    assert "built without guides" in str(refused.error)
    assert free.error is None and len(free.token_ids) == 4
    with pytest.raises(InvalidParams, match="built without guides"):
        llm._engine.grammar_of(params[0])
    llm.close()


@pytest.mark.parametrize(
    "spec", [SpecConfig("ngram"), SpecConfig("suffix"), SpecConfig(num_forced_tokens=4)], ids=str
)
def test_drafts_of_the_callbacks_are_refused(spec):
    with pytest.raises(InvalidParams, match="guide=None"):
        LLM(spec=spec, guide=None)


def test_auto_that_comes_to_lookups_is_refused(tmp_path):
    save_target(tmp_path)
    with pytest.raises(InvalidParams, match="guide=None"):
        LLM(tmp_path, spec="auto", guide=None)


def test_trees(folders):
    spec = SpecConfig(model=folders[1], tree=DynamicTree(3, 2, 5))
    outputs = []
    for options in (dict(), dict(guide=None)):
        llm = LLM(folders[0], spec=spec, max_batch_size=4, **options)
        outputs.append(told(generate(llm, PROMPTS[:3], PARAMS[:3])))
    assert outputs[0] == outputs[1]


def test_slots_are_the_devices_alone(folders):
    """Without callbacks nobody on the host reads the tokens, so they are in no shared memory."""
    llm = make(folders, guide=None)
    state = llm._engine._executor.step._state
    assert state.nodes is state.host_nodes and state.nodes.tokens.shape[1] == K + 1
    assert llm._engine._executor.grammar.held.dtype == torch.uint8
    llm.close()


def test_counters_have_the_names_of_the_executors():
    native = {name for name in dir(ExecutorCounters) if not name.startswith("_")}
    assert native == set(vars(GrammarCounters()))
