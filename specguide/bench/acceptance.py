"""Owns the acceptance benchmark: what an iteration gains, by drafter, draft guidance, forced drafts and backend."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from specguide.bench.records import Records
from specguide.bench.settings import PLAIN, Setting, Tokens
from specguide.bench.tasks import Task
from specguide.bench.validation import violation
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.params import SamplingParams
from specguide.request import RequestOutput
from specguide.trace.spans import CALLBACKS


@dataclass(frozen=True)
class Conditions:
    """What all settings have in common.

    make:           builds an `LLM` from what differs
    max_whitespace: as in GuideConfig; 0 is compact JSON
    """

    make: Callable[..., Any]
    num_draft_tokens: int = 3
    max_tokens: int = 256
    max_whitespace: int = 0

    def llm(self, setting: Setting) -> Any:
        """Built anew for each setting, with a recorder, whose callback times are read."""
        guide = GuideConfig(backend=setting.backend, max_whitespace=self.max_whitespace, compile_timeout_s=60.0)
        return self.make(spec=setting.spec(self.num_draft_tokens), guide=guide, max_batch_size=setting.concurrency,
                         trace=True)


def run(setting: Setting, tasks: Sequence[Task], conditions: Conditions, plain: Tokens
        ) -> tuple[dict[str, Any], Tokens]:
    """A record of one setting, and its outputs.

    plain: plain decoding's outputs of the same tasks; what differs from them is counted
    """
    llm = conditions.llm(setting)
    try:
        llm.warm_up()
        prompts = [llm.tokenizer.apply_chat_template(task.messages, tools=task.tools or None, json_schema=task.schema)
                   for task in tasks]
        params = [SamplingParams(max_tokens=conditions.max_tokens, temperature=0.0, guide=_guide(task))
                  for task in tasks]
        llm.generate(prompts, [_first_only(one) for one in params])  # compiles kernels and grammars
        llm.reset_prefix_cache()
        before, begin, begin_ns = llm.stats(), time.perf_counter(), time.perf_counter_ns()
        outputs = llm.generate(prompts, params)
        seconds, after = time.perf_counter() - begin, llm.stats()
        callbacks = [(span.end_ns - span.begin_ns) / 1e3 for span in llm.spans()
                     if span.track == CALLBACKS and span.begin_ns >= begin_ns]
    finally:
        llm.close()
    tokens = {task.name: output.token_ids for task, output in zip(tasks, outputs, strict=True) if output.error is None}
    figures = acceptance(outputs)
    grammar_s = after.grammar_s - before.grammar_s
    return {
        **asdict(setting), "num_draft_tokens": conditions.num_draft_tokens, "requests": len(tasks), **figures,
        "tokens_per_s": round(figures["output_tokens"] / seconds, 1),
        "callback_us": _percentiles(callbacks),
        "grammar_us_per_token": round(1e6 * grammar_s / max(1, figures["output_tokens"]), 2),
        "differ_from_plain": sum(plain[name] != found for name, found in tokens.items() if name in plain),
        **_validity(tasks, outputs)}, tokens


def measure(wanted: Sequence[Setting], tasks: Mapping[str, Sequence[Task]], conditions: Conditions, records: Records
            ) -> list[dict[str, Any]]:
    """Figures of each setting; what `records` has already is not measured again."""
    for setting in tqdm(wanted, unit="setting"):
        if records.find(setting) is None:
            base = replace(setting, drafter=PLAIN, num_forced=0, guided_drafts=True)
            plain = records.outputs(base) if setting != base else {}
            records.add(setting, *run(setting, tasks[setting.set_name], conditions, plain))
    return [figures for setting in wanted if (figures := records.find(setting)) is not None]


def acceptance(outputs: Sequence[RequestOutput]) -> dict[str, Any]:
    """Of all requests that ended well: tokens an iteration, golden token included, and where drafts were lost."""
    ended = [output for output in outputs if output.error is None]
    histogram, proposed, accepted = Counter[int](), Counter[str](), Counter[str]()
    for output in ended:
        histogram.update(dict(enumerate(output.metrics.accepted_histogram)))
        proposed.update(output.metrics.drafts_proposed)
        accepted.update(output.metrics.drafts_accepted)
    num_iterations, num_tokens = sum(histogram.values()), sum(len(output.token_ids) for output in ended)
    most = max((place for place, count in histogram.items() if count), default=0)
    reached = [sum(histogram[place] for place in range(depth, most + 1)) for depth in range(1, most + 1)]
    gained = sum((place + 1) * count for place, count in histogram.items())
    return {"output_tokens": num_tokens, "iterations": num_iterations,
            "acceptance_length": round(gained / max(1, num_iterations), 4),
            "histogram": [histogram[place] for place in range(most + 1)],
            "accepted_to_depth": [round(count / max(1, num_iterations), 4) for count in reached],
            "proposed": dict(proposed), "accepted": dict(accepted),
            "forced_share": round(accepted["forced"] / max(1, num_tokens), 4)}


def _validity(tasks: Sequence[Task], outputs: Sequence[RequestOutput]) -> dict[str, Any]:
    """Of guided outputs that their grammar ended: how many are valid. The others were refused, failed or were cut."""
    guided = [(task, output) for task, output in zip(tasks, outputs, strict=True) if task.schema is not None]
    whole = [(task, output) for task, output in guided if output.finish_reason == "stop"]
    invalid = [task.name for task, output in whole if violation(task.schema, output.text) is not None]
    errors = Counter(_kind(output.error) for _, output in guided if output.error is not None)
    return {"whole": len(whole), "invalid": invalid, "cut": sum(o.finish_reason == "length" for _, o in guided),
            "errors": dict(errors)}


def _guide(task: Task) -> Guide | None:
    return None if task.schema is None else Guide(json_schema=task.schema)


def _first_only(params: SamplingParams) -> SamplingParams:
    return SamplingParams(max_tokens=1, temperature=0.0, guide=params.guide)


def _kind(error: SpecguideError) -> str:
    return type(error).__name__


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {name: round(float(np.percentile(values, share)), 1) for name, share in (
        ("p50", 50), ("p99", 99), ("p99.9", 99.9))}
