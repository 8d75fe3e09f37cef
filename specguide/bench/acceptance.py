"""Owns the acceptance benchmark: the tokens gained per iteration and the time it takes, by drafter,
window, guidance, backend and load."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from specguide.bench.acceptance_figures import acceptance, grammar_costs, latencies, times, validity
from specguide.bench.prompts import messages_of
from specguide.bench.provenance import provenance
from specguide.bench.records import Records
from specguide.bench.settings import PLAIN, UNGUIDED, Setting, Tokens
from specguide.bench.tasks import Task
from specguide.config import GuideConfig
from specguide.errors import UserError
from specguide.params import SamplingParams
from specguide.request import RequestOutput
from specguide.tokenizer.vocabulary import Vocabulary


@dataclass(frozen=True)
class Conditions:
    """What all settings have in common.

    make:           builds an `LLM` from the arguments that differ
    max_whitespace: see GuideConfig; 0 is compact JSON
    heads:          folder of a method's head or small model, if it is not the shipped one
    """

    make: Callable[..., Any]
    max_tokens: int = 256
    max_whitespace: int = 0
    heads: Mapping[str, Path] = field(default_factory=dict)

    def guide(self, backend: str) -> GuideConfig:
        """The configuration of guides: the same limits for all backends, with enough time for slow
        compilers."""
        return GuideConfig(
            backend=backend, max_whitespace=self.max_whitespace, compile_timeout_s=60.0
        )

    def llm(self, setting: Setting) -> Any:
        """An LLM for this setting only, with a recorder from which times are read."""
        return self.make(
            spec=setting.spec(self.heads),
            guide=self.guide(setting.backend),
            max_batch_size=setting.concurrency,
            trace=True,
        )


@dataclass(frozen=True)
class _Run:
    """The results of a setting's tasks; `refused` counts tasks that the chat template refuses."""

    asked: Sequence[Task]
    refused: Counter[str]
    outputs: Sequence[RequestOutput]
    seconds: float
    grammar_s: float
    timeline: dict[str, Any]
    vocabulary: Vocabulary

    def tokens(self) -> Tokens:
        """The token ids of outputs that ended without an error, by their tasks' names."""
        return {
            task.name: output.token_ids
            for task, output in zip(self.asked, self.outputs, strict=True)
            if output.error is None
        }


def run(
    setting: Setting, tasks: Sequence[Task], conditions: Conditions, plain: Tokens | None
) -> tuple[dict[str, Any], Tokens]:
    """A record of one setting, and its outputs. Tasks that the backend or the chat template refuses
    are counted.

    plain: plain decoding's outputs of the same tasks; different outputs are counted, and so are
           outputs that only one of the two has; None: no comparison
    """
    llm = conditions.llm(setting)
    try:
        done = _run(llm, tasks, conditions.max_tokens, is_guided=setting.drafter != UNGUIDED)
    finally:
        llm.close()
    tokens = done.tokens()
    found, spec = acceptance(done.outputs), setting.spec(conditions.heads)
    num_tokens = found["output_tokens"]
    figures = {
        **asdict(setting),
        "window": spec.layout.num_nodes - 1 if spec else 0,
        "requests": len(tasks),
        **found,
        "tokens_per_s": round(num_tokens / done.seconds, 1),
        **latencies(done.outputs),
        **done.timeline,
        "grammar_us_per_token": round(1e6 * done.grammar_s / max(1, num_tokens), 2),
        "differ_from_plain": 0 if plain is None else _num_different(plain, tokens),
        **validity(done.asked, done.outputs),
    }
    figures["errors"] = dict(Counter(figures["errors"]) + done.refused)
    if setting.drafter == PLAIN:  # the other drafters' outputs are the same
        guide = conditions.guide(setting.backend)
        figures |= grammar_costs(done.asked, done.outputs, done.vocabulary, guide)
    return figures, tokens


def _run(llm: Any, tasks: Sequence[Task], max_tokens: int, *, is_guided: bool) -> _Run:
    """Run all requests twice: first with one token each, in and out, which compiles the grammars;
    then in full."""
    llm.warm_up()
    prompts, refused = _prompts(llm, tasks)
    asked = [task for task in tasks if task.name in prompts]
    params = [
        SamplingParams(
            max_tokens=max_tokens, temperature=0.0, guide=task.guide if is_guided else None
        )
        for task in asked
    ]
    ends = [prompt[-1:] for prompt in prompts.values()]
    llm.generate(ends, [_first_only(one) for one in params])
    llm.reset_prefix_cache()
    before, begin, begin_ns = llm.stats(), time.perf_counter(), time.perf_counter_ns()
    outputs = llm.generate(list(prompts.values()), params)
    seconds = time.perf_counter() - begin
    return _Run(
        asked,
        refused,
        outputs,
        seconds,
        llm.stats().grammar_s - before.grammar_s,
        times(llm.spans(), begin_ns),
        llm.tokenizer.vocabulary(),
    )


def measure(
    wanted: Sequence[Setting],
    tasks: Mapping[str, Sequence[Task]],
    conditions: Conditions,
    records: Records,
) -> Iterator[dict[str, Any]]:
    """Figures of each setting, as soon as they are there, with the version they were measured with;
    settings that `records` already has are not measured again."""
    made = provenance()
    origin = {name: made[name] for name in ("version", "commit", "date")}
    with tqdm(wanted, unit="setting", disable=None) as progress:
        for setting in progress:
            if records.find(setting) is None:
                progress.set_postfix_str(f"{setting.set_name} {setting.drafter} {setting.backend}")
                is_own = setting.drafter in (PLAIN, UNGUIDED)
                plain = None if is_own else records.outputs(setting.plain)
                found, tokens = run(setting, tasks[setting.set_name], conditions, plain)
                records.add(setting, found | origin, tokens)
            figures = records.find(setting)
            assert figures is not None
            yield figures


def _num_different(some: Tokens, others: Tokens) -> int:
    return sum(some.get(name) != others.get(name) for name in some.keys() | others.keys())


def _prompts(llm: Any, tasks: Sequence[Task]) -> tuple[dict[str, list[int]], Counter[str]]:
    """Token ids by the task's name, and the errors of tasks that the chat template refuses."""
    prompts, refused = dict[str, list[int]](), Counter[str]()
    for task in tasks:
        try:
            prompts[task.name] = llm.tokenizer.apply_chat_template(
                messages_of(task, llm.tokenizer.chat_template),
                tools=task.tools or None,
                json_schema=task.schema,
            )
        except UserError as error:
            refused[type(error).__name__] += 1
    return prompts, refused


def _first_only(params: SamplingParams) -> SamplingParams:
    return SamplingParams(max_tokens=1, temperature=0.0, guide=params.guide, allow_truncation=True)
