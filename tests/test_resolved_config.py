"""What a configuration comes to: every choice is made, and the configuration stays as it was."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, replace

import pytest

from specguide import SpecConfig
from specguide.config import EngineConfig, GuideConfig
from specguide.config.resolved import CallbackConfig, Facts, resolve
from specguide.drafts.layout import NO_DRAFTS
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidParams
from specguide.host import env

CPU = Facts("cpu", "float32", max_positions=512)
GPU = Facts("cuda:0", "bfloat16", max_positions=512, own_head="eagle3")
OPTIONAL = {"model", "spec", "guide", "callbacks", "quantization", "rank_address", "chat_template"}
"""What is not a choice left open where it is None: the shipped model, no drafts, no guides,
weights as they are, ranks of this host alone."""


@pytest.mark.parametrize("facts", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(),
        EngineConfig(spec=SpecConfig("auto")),
        EngineConfig(spec=SpecConfig(tree=DynamicTree(2, 2, 4)), lag=2, max_model_len=64),
    ],
    ids=["plain", "auto", "tree"],
)
def test_no_choice_is_left_open_and_the_argument_stays(config, facts):
    before = deepcopy(config)
    resolved = resolve(config, facts)
    assert config == before
    open_choices = {f.name for f in fields(resolved) if getattr(resolved, f.name) is None}
    assert open_choices <= OPTIONAL


def test_defaults_go_by_the_device():
    here, there = resolve(EngineConfig(), CPU), resolve(EngineConfig(), GPU)
    assert (here.device, here.dtype, here.lag, here.enforce_eager) == ("cpu", "float32", 0, True)
    assert (there.device, there.dtype, there.lag, there.enforce_eager) == (
        "cuda:0",
        "bfloat16",
        1,
        False,
    )
    assert here.max_model_len == 512


def test_what_was_asked_is_kept():
    config = EngineConfig(lag=2, max_model_len=64, enforce_eager=True)
    resolved = resolve(config, GPU)
    assert (resolved.lag, resolved.max_model_len, resolved.enforce_eager) == (2, 64, True)
    assert resolve(EngineConfig(max_model_len=-1), CPU).max_model_len == 512
    assert resolved.layout == NO_DRAFTS and not resolved.is_adaptive and resolved.guided_drafts


@pytest.mark.parametrize("max_model_len", [-2, 0, 1, 513])
def test_more_than_the_model_has_is_refused(max_model_len):
    with pytest.raises(InvalidParams, match="2 to 512"):
        resolve(EngineConfig(max_model_len=max_model_len), CPU)


def test_auto_is_adaptive_and_a_tree_counts_its_depth():
    asked = SpecConfig("auto")
    assert not asked.adaptive
    resolved = resolve(EngineConfig(spec=asked), GPU)
    assert resolved.spec == SpecConfig(
        tree=DynamicTree(), num_draft_tokens=DynamicTree().depth, adaptive=True
    )
    assert resolved.is_adaptive and resolved.layout == resolved.spec.layout
    without_head = resolve(EngineConfig(spec=asked), replace(GPU, own_head=None))
    assert without_head.spec.method == "suffix" and without_head.spec.num_forced_tokens == 8


def test_auto_without_head_and_guides_is_refused_as_suffix_is():
    asked = EngineConfig(spec=SpecConfig("auto"), guide=None)
    with pytest.raises(InvalidParams, match="engine with guide=None does not have") as refused:
        resolve(asked, CPU)
    assert refused.value.param == "spec"
    resolved = resolve(asked, GPU)
    assert (resolved.spec.method, resolved.callbacks) == ("eagle3", None)


def test_callbacks_wait_longer_on_a_cpu():
    here = resolve(EngineConfig(guide=GuideConfig(deadline_us=900)), CPU).callbacks
    there = resolve(EngineConfig(guide=GuideConfig(deadline_us=900)), GPU).callbacks
    threads = env.num_grammar_threads()
    assert here == CallbackConfig(False, threads, 900, draft_wait_us=900, target_wait_us=900)
    assert there == CallbackConfig(True, threads, 900, draft_wait_us=20, target_wait_us=None)


@pytest.mark.parametrize("facts", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("how", ["native", "polling"])
def test_what_was_asked_of_callbacks_is_kept(facts, how):
    guide = GuideConfig(num_threads=3, draft_wait_us=0, target_wait_us=7, callbacks=how)
    assert resolve(EngineConfig(guide=guide), facts).callbacks == CallbackConfig(
        how == "polling", 3, guide.deadline_us, draft_wait_us=0, target_wait_us=7
    )
