"""Marks around what is said and thought: where a model thinks, what its prompt is given, and what
is told of its output."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from read_outputs import cut, events_of
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from benchmarks.spans import told
from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.reading import SpelledTokens
from specguide.guided.reasoning_formats import reasoning_formats
from specguide.guided.tools import SpecialToken, Tool, tool_formats, tool_guide
from specguide.guided.wrappers.reasoning import ReasoningSections
from specguide.params import SamplingParams
from specguide.server.running.parsed_sample import output_form
from specguide.server.tasks.reasoning import ReasoningPlan
from specguide.server.tasks.task import Task
from specguide.tokenizer import Tokenizer

NO_THOUGHTS = "<|START_THINKING|><|END_THINKING|>"
SPENT = (
    "<seed:cot_budget_reflect>The current thinking budget is 0, so I will directly start answering "
    "the question.</seed:cot_budget_reflect>\n</seed:think>"
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A tokenizer of bytes; the marks of all formats are special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({char: token for token, char in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    formats = reasoning_formats().values()
    marks = {mark for one in formats for mark in (*one.special_tokens, one.asked) if mark}
    backend.add_special_tokens(["<end>", *sorted(marks)])
    return Tokenizer(backend, [backend.token_to_id("<end>")])


@pytest.mark.parametrize(
    ("prompt", "may_reason"),
    [
        ("<|think|>\n<|turn>model\n", True),
        ("<|think|>\n<tool_response|>", True),
        ("<|turn>model\n<|channel>thought\n<channel|>", False),
        ("<tool_response|>", False),
    ],
)
def test_gemma_reasons_where_its_prompt_asks_for_it(prompt, may_reason, tokenizer):
    plan = ReasoningPlan(reasoning_formats()["gemma4"])
    expected = plan.expected(tokenizer.encode(prompt, add_special_tokens=False), tokenizer)
    assert (expected is not None) == may_reason


@pytest.mark.parametrize("has_tools", [False, True])
@pytest.mark.parametrize(("end", "is_over"), [(NO_THOUGHTS, True), ("<|START_THINKING|>", False)])
def test_an_answer_is_begun_behind_the_end_of_reasoning(end, is_over, has_tools, tokenizer):
    plan = ReasoningPlan(reasoning_formats()["command"], has_tools=has_tools)
    prompt = tokenizer.encode("Hi" + end, add_special_tokens=False)
    finished = tokenizer.decode(plan.finished(prompt, tokenizer), skip_special_tokens=False)
    assert finished == "Hi" + end + ("<|START_RESPONSE|>" if is_over and not has_tools else "")


@pytest.mark.parametrize(
    ("name", "effort", "has_tools", "instead"),
    [
        ("command", None, False, "<|START_RESPONSE|>"),
        ("command", None, True, ""),
        ("command", "high", False, None),
        ("minimax_m3", None, True, "</mm:think>"),
        ("apertus", None, True, ""),
        ("qwen3", None, False, None),
    ],
)
def test_models_that_choose_whether_to_reason_may(name, effort, has_tools, instead, tokenizer):
    plan = ReasoningPlan(reasoning_formats()[name], effort, has_tools=has_tools)
    prompt = tokenizer.encode("Hi", add_special_tokens=False)
    assert plan.finished(prompt, tokenizer) == prompt
    told = plan.guided(Guide(regex="a"), plan.expected(prompt, tokenizer))["reasoning"]
    assert told.instead == instead


@pytest.mark.parametrize(
    ("name", "prompt", "finished"),
    [
        ("command", "Hi", "Hi<|START_RESPONSE|>"),
        ("command", f"Hi{NO_THOUGHTS}", f"Hi{NO_THOUGHTS}<|START_RESPONSE|>"),
        ("minimax_m3", "Hi</mm:think>", "Hi</mm:think>"),
        ("minimax_m3", "Hi", "Hi</mm:think>"),
        ("apertus", "Hi", "Hi"),
        ("seed_oss", "Hi", f"Hi<seed:think>{SPENT}"),
        ("seed_oss", "Hi<seed:think><seed:cot_budget_reflect>", f"Hi<seed:think>{SPENT}"),
        ("glm45", "Hi<think>", "Hi<think></think>"),
        ("qwen3", "Hi<think>\n", "Hi<think>\n\n</think>\n\n"),
        (
            "seed_oss",
            "Hi<seed:think>\nNone.\n</seed:think>",
            "Hi<seed:think>\nNone.\n</seed:think>",
        ),
    ],
)
def test_a_section_that_nobody_wants_is_left_out_as_the_model_does(
    name, prompt, finished, tokenizer
):
    plan = ReasoningPlan(reasoning_formats()[name], "none")
    tokens = plan.finished(tokenizer.encode(prompt, add_special_tokens=False), tokenizer)
    assert tokenizer.decode(tokens, skip_special_tokens=False) == finished
    assert plan.expected(tokens, tokenizer) is None


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("end", ["", "<|inner_suffix|>"])
def test_a_call_ends_the_section_of_apertus(end, size, tokenizer):
    vocabulary, special = tokenizer.vocabulary(), tokenizer_special(tokenizer)
    plan = ReasoningPlan(reasoning_formats()["apertus"], has_tools=True)
    tools = [Tool("f", {"type": "object"})]
    guide = tool_guide(tool_formats()["apertus"], tools, special, GuideConfig())
    prompt = tokenizer.encode("Hi", add_special_tokens=False)
    expected = plan.expected(prompt, tokenizer)
    asked = plan.guided(guide, expected)
    written = f'<|inner_prefix|>why{end}<|tools_prefix|>[{{"f": {{"a": 1}}}}]<|tools_suffix|>'
    compiler = GrammarCompiler(vocabulary, GuideConfig())
    grammar = compiler.compile(guide)
    compiler.close()
    sections = ReasoningSections(vocabulary, tokenizer.token_id)
    matcher = sections.before(grammar, asked["reasoning"]).matcher()
    assert all(map(matcher.accept, tokenizer.encode(written, add_special_tokens=False)))
    task = Task("m", (prompt,), SamplingParams(guide=guide), reasoning=expected)
    form = output_form(SimpleNamespace(special_token=special), task)
    pieces = events_of(form, cut(spelled(written, tokenizer), size))
    assert told(pieces) == ("why", "", [("f", '{"a": 1}')])


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    ("name", "thought", "written"),
    [
        ("command", "why", "why<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>"),
        ("command", None, "Yes.<|END_RESPONSE|>"),
        ("north", "why", "why<|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>"),
        (
            "kimi_k3",
            "why",
            "why<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|>"
            "<|close|>message<|sep|>",
        ),
        ("kimi_k3", None, "Yes.<|close|>response<|sep|><|close|>message<|sep|>"),
        ("gemma4", "why\n", "<|channel>thought\nwhy\n<channel|>Yes."),
        ("minimax_m3", "why", "<mm:think>why</mm:think>Yes."),
        ("minimax_m3", "", "</mm:think>Yes."),
        ("solar_open", "why", "why<|end|><|begin|>assistant<|content|>Yes.<|end|>"),
        ("solar_open", None, "Yes.<|end|>"),
        ("hy3", "why", "why</think:opensource>Yes."),
        ("apertus", "why", "<|inner_prefix|>why<|inner_suffix|>Yes."),
        ("apertus", "", "Yes."),
    ],
)
def test_marks_are_no_part_of_what_is_told(name, thought, written, size, tokenizer):
    one = reasoning_formats()[name]
    plan = ReasoningPlan(one)
    begun = one.begin if thought and not written.startswith(one.begin) else ""
    asked = one.asked if thought else ""
    prompt = tokenizer.encode(f"{asked} Hi {begun}", add_special_tokens=False)
    expected = None if thought is None else plan.expected(prompt, tokenizer)
    task = Task(
        "m", (prompt,), SamplingParams(), reasoning=expected, after_answer=plan.after_answer
    )
    for special in (lambda text: None, tokenizer_special(tokenizer)):
        form = output_form(SimpleNamespace(special_token=special), task)
        data = spelled(written, tokenizer) if special("<end>") is not None else written.encode()
        assert told(events_of(form, cut(data, size))) == (thought or "", "Yes.", [])


def tokenizer_special(tokenizer: Tokenizer) -> SpecialToken:
    vocabulary = tokenizer.vocabulary()
    return lambda text: vocabulary.special_id(tokenizer.token_id(text))


def spelled(text: str, tokenizer: Tokenizer) -> bytes:
    table = SpelledTokens(tokenizer.vocabulary().token_bytes, ())
    return b"".join(table[token] for token in tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    ("name", "effort", "told_variables"),
    [
        ("hy3", "none", {"reasoning_effort": "no_think"}),
        ("hy3", "medium", {"reasoning_effort": "high"}),
        ("kimi_k3", "none", {"thinking": False, "thinking_effort": "none"}),
        ("kimi_k3", "xhigh", {"thinking": True, "thinking_effort": "max"}),
        ("minimax_m3", "none", {"thinking_mode": "disabled"}),
        ("minimax_m3", "low", {"thinking_mode": "enabled"}),
        ("north", "none", {"reasoning": False}),
        ("command", "none", {"reasoning": False}),
        ("seed_oss", "none", {"thinking_budget": 0}),
        ("seed_oss", "low", {}),
    ],
)
def test_efforts_in_the_words_of_templates(name, effort, told_variables):
    assert ReasoningPlan(reasoning_formats()[name], effort).variables() == told_variables
