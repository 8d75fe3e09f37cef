"""Owns the configuration: frozen dataclasses, composed into one EngineConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specguide.converted import converted
from specguide.draft_layout import DraftLayout
from specguide.draft_methods import AUTO, DraftMethod, method_named
from specguide.draft_tree import CHAIN, DraftShape, DraftTree, DynamicTree
from specguide.errors import InvalidParams
from specguide.guide import KEY_ORDERS
from specguide.schema_documents import schema_documents

MOST_DRAFTS = 32
CACHE_DTYPES = ("auto", "bfloat16", "fp8")
GUIDE_CALLBACKS = ("native", "polling")


@dataclass(frozen=True)
class SpecConfig:
    """How drafts are made.

    method:            "eagle3", "peagle" or "mtp": a draft head, of which "peagle" makes all its
                       drafts in one pass; "draft_model": a small model with the target's tokenizer.
                       Without any model: "ngram", what followed the last tokens
                       when they were in the request's text most recently (prompt lookup); "suffix",
                       what followed most often the longest end of the text that was there before,
                       in its own text or in outputs of earlier requests (suffix drafting);
                       "grammar", forced tokens alone. "auto": the head that belongs to the target,
                       EAGLE3 for the shipped model and MTP where the target's folder has such
                       layers, in trees of up to 60 nodes or, where num_forced_tokens is given, in
                       chains with these; else "suffix" with 8 forced tokens or as many as are
                       given. Adaptive
    model:             folder of the head or small model; left out: the shipped head, and for "mtp"
                       with another target than the shipped one the target's own folder
    num_draft_tokens:  K, drafts after the golden token that the method makes, 1 to 16; "grammar"
                       makes none, and of a tree it is the depth, whatever is given here
    tree:              for a draft head or model: a `DynamicTree`, or a `DraftTree` of fixed shape,
                       in which the r-th child of a node is the r-th likeliest token; left out: a
                       chain. On the command line TOP_K,DEPTH,NODES, for example 10,6,60
    num_forced_tokens: F, drafts beside these where the grammar forces text, with K at most 32;
                       "grammar" needs 1
    prompt_lookup_min, prompt_lookup_max: fewest and most tokens that "ngram" looks for, 1 to 16
    guided_drafts:     drafts are chosen among what the grammar allows; False, for comparison: among
                       all tokens, so that verification alone is guided; outputs are the same
    adaptive:          each iteration drafts as much of this as gains most, by what is accepted and
                       what it takes: of a tree also a smaller one or a chain, and of anything
                       nothing, so that drafts that are never accepted cost next to nothing
    synthetic_acceptance: for measuring alone, with random weights: accept drafts at random, so many
                       tokens an iteration on average, golden token included, 1 to K + 1, whatever
                       the target says. Outputs are then worthless, though in their grammar. For
                       chains of a draft head or model
    quantization:      "fp8" or "int4": the head's or small model's weights are rounded as they are
                       read; only acceptance can suffer. Left out: they stay as they are
    """

    method: str = "eagle3"
    model: str | Path | None = None
    num_draft_tokens: int = 3
    num_forced_tokens: int = 0
    tree: DynamicTree | DraftTree | None = None
    prompt_lookup_min: int = 2
    prompt_lookup_max: int = 4
    guided_drafts: bool = True
    adaptive: bool = False
    synthetic_acceptance: float | None = None
    quantization: str | None = None

    def __post_init__(self) -> None:
        method = method_named(self.method)
        if not 1 <= self.num_draft_tokens <= 16:
            raise InvalidParams(
                f"num_draft_tokens must be 1 to 16, found {self.num_draft_tokens}",
                param="num_draft_tokens",
            )
        self.shape.check(method, self.num_forced_tokens)
        self._check_proposals(method)
        self._check_model(method)
        self._check_synthetic(method)
        if not self.guided_drafts:
            self.layout.check_unguided()

    def _check_proposals(self, method: DraftMethod) -> None:
        least = method.least_forced
        most = MOST_DRAFTS - method.chain(self.num_draft_tokens, 0).num_drafts
        if not least <= self.num_forced_tokens <= most:
            raise InvalidParams(
                f"num_forced_tokens must be {least} to {most} with method {self.method!r} and "
                f"{self.num_draft_tokens} draft tokens, found {self.num_forced_tokens}",
                param="num_forced_tokens",
            )
        if not 1 <= self.prompt_lookup_min <= self.prompt_lookup_max <= 16:
            raise InvalidParams(
                "prompt_lookup_min and prompt_lookup_max must be 1 to 16 and in this order, found "
                f"{self.prompt_lookup_min} and {self.prompt_lookup_max}",
                param="prompt_lookup_min",
            )

    def _check_model(self, method: DraftMethod) -> None:
        if self.model is not None and self.method == AUTO:
            raise InvalidParams(
                "method 'auto' finds the head that belongs to the target: leave model out, or name "
                "the "
                "method of the model",
                param="model",
            )
        if self.model is not None and not method.has_model:
            raise InvalidParams(
                f"method {self.method!r} has no model: leave model out", param="model"
            )
        if self.quantization is not None and not method.has_model and self.method != AUTO:
            raise InvalidParams(
                f"method {self.method!r} has no model: leave its quantization out",
                param="quantization",
            )

    def _check_synthetic(self, method: DraftMethod) -> None:
        wanted = self.synthetic_acceptance
        if wanted is None:
            return
        if not 1 <= wanted <= self.num_draft_tokens + 1:
            raise InvalidParams(
                "synthetic_acceptance must be 1 to num_draft_tokens + 1 = "
                f"{self.num_draft_tokens + 1}, found {wanted}",
                param="synthetic_acceptance",
            )
        is_a_chain = method.has_model and not method.has_own_trees and self.tree is None
        if not is_a_chain or self.num_forced_tokens or self.adaptive:
            raise InvalidParams(
                "synthetic_acceptance is for chains of a draft head or model: leave out tree, "
                "num_forced_tokens and adaptive, and name the method",
                param="synthetic_acceptance",
            )

    @property
    def shape(self) -> DraftShape:
        """How the drafts stand to one another."""
        return self.tree or CHAIN

    @property
    def layout(self) -> DraftLayout:
        """The drafts that there may be; of "auto" not all, since what it comes to depends on the
        target."""
        method = method_named(self.method)
        return self.shape.layout(method.chain(self.num_draft_tokens, self.num_forced_tokens))


@dataclass(frozen=True)
class GuideConfig:
    """How grammars are compiled and run.

    backend:               "auto" chooses by evidence, per guide
    max_source_bytes:      largest guide, bytes of canonical text
    max_depth:             deepest nesting of a schema
    max_values:            most values in a schema's JSON, and most choices
    max_rules:             most rules of a grammar
    max_schema_steps:      most steps that rewriting a guide may take in all, as a schema into what
                           backends enforce; a million take about a second, in which other threads
                           run slower
    compile_timeout_s:     longest compile, seconds
    isolate_compiles:      True: a new guide is compiled first in a process of its own, which is
                           killed where it outruns compile_timeout_s or max_compile_bytes, and by
                           the engine only once that has gone well. For guides of strangers;
                           `specguide serve` does so unless told otherwise. False: on a thread,
                           which cannot be stopped and whose memory has no limit
    max_compile_bytes:     most memory that one compile may take, bytes; with isolate_compiles
    cache_bytes:           budget of the compiled-grammar cache, bytes
    num_compile_threads:   grammars that are compiled at once; with isolate_compiles as many that
                           take long go on beside
    num_threads:           worker threads of the grammar executor; left out: from the machine
    deadline_us:           longest wait of a callback for any row, microseconds
    target_wait_us:        how long the target's rows are still waited for when it has come to its
                           last product, which makes its logits, microseconds; a slot later than
                           that is held. Left out: on a GPU an iteration's time shared among its
                           requests, which is what holding one costs; on a CPU deadline_us
    draft_wait_us:         how long the drafter's rows are still waited for when its step has come
                           to the last product, which makes its logits, microseconds; without a row
                           it guesses. Left out: 20 on a GPU, on a CPU deadline_us
    max_whitespace:        most whitespace characters between two JSON tokens; 0: none, JSON is
                           compact
    max_indent:            most spaces, or tabs, of indentation behind a newline between two JSON
                           tokens; a newline with indentation may be longer than max_whitespace,
                           unless that is 0
    key_order:             of JSON objects whose guide does not say: "schema", properties come in
                           the schema's order and others behind them, but where a schema can be
                           enforced in any order alone; "any", in any order, each once
    schema_documents:      JSON Schemas that guides may refer to, by the URIs that a `$ref` names,
                           or the path of a JSON file of such a mapping; nothing is ever fetched.
                           Not for schemas inside of grammars
    assert_formats:        strings of JSON Schemas must be of their `format`; False: it is an
                           annotation, as a validator reads it that was not told otherwise. Not for
                           schemas inside of grammars
    allow_truncation:      max_tokens may cut guided outputs off, whatever a request says; else
                           they end in time
    callbacks:             "native": host functions; "polling": a thread that polls for them and
                           keeps a core busy while iterations run. Left out: polling on a GPU, where
                           host functions may be called late, else native
    """

    backend: str = "auto"
    max_source_bytes: int = 1 << 20
    max_depth: int = 128
    max_values: int = 20_000
    max_rules: int = 1000
    max_schema_steps: int = 1_000_000
    compile_timeout_s: float = 10.0
    isolate_compiles: bool = False
    max_compile_bytes: int = 256 << 20
    cache_bytes: int = 512 << 20
    num_compile_threads: int = 2
    num_threads: int | None = None
    deadline_us: int = 20_000
    target_wait_us: int | None = None
    draft_wait_us: int | None = None
    max_whitespace: int = 8
    max_indent: int = 64
    key_order: str = "schema"
    schema_documents: Mapping[str, Any] | str | None = converted(None, schema_documents)
    assert_formats: bool = True
    allow_truncation: bool = False
    callbacks: str | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("deadline_us", 1),
            ("target_wait_us", 0),
            ("draft_wait_us", 0),
            ("num_threads", 1),
            ("max_whitespace", 0),
            ("max_indent", 0),
            ("max_schema_steps", 1),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidParams(f"{name} must be at least {least}, found {value}", param=name)
        if self.key_order not in KEY_ORDERS:
            raise InvalidParams(
                f"key_order {self.key_order!r} is unknown; known: {', '.join(KEY_ORDERS)}",
                param="key_order",
            )
        if self.callbacks not in (None, *GUIDE_CALLBACKS):
            raise InvalidParams(
                f"callbacks {self.callbacks!r} are unknown; known: {', '.join(GUIDE_CALLBACKS)}",
                param="callbacks",
            )


@dataclass(frozen=True)
class CacheConfig:
    """The paged key-value cache.

    page_size:              tokens a page
    num_pages:              pages in all; left out: as many as find room
    gpu_memory_utilization: share of a GPU's memory that weights, buffers, graphs and cache may take
                            together; the cache takes what the others leave
    kv_cache_memory_bytes:  the cache's size, bytes; left out: on a GPU by gpu_memory_utilization,
                            on a CPU a quarter of the memory that is free, and no more than
                            max_batch_size requests of full context need
    kv_cache_dtype:         what keys and values are held in, a drafter's too: "bfloat16"; "fp8",
                            8-bit floats (e4m3) with the checkpoint's scales, or 1 where it has
                            none, in which a cache has room for twice the tokens; "auto", "fp8"
                            where the target's checkpoint asks for it, else the models' dtype
    """

    page_size: int = 16
    num_pages: int | None = None
    gpu_memory_utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None
    kv_cache_dtype: str = "auto"

    def __post_init__(self) -> None:
        if self.kv_cache_dtype not in CACHE_DTYPES:
            raise InvalidParams(
                f"kv_cache_dtype {self.kv_cache_dtype!r} is unknown; known: "
                f"{', '.join(CACHE_DTYPES)}",
                param="kv_cache_dtype",
            )
        for name in ("page_size", "num_pages", "kv_cache_memory_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidParams(f"{name} must be at least 1, found {value}", param=name)
        if not 0 < self.gpu_memory_utilization <= 1:
            raise InvalidParams(
                "gpu_memory_utilization is a share of the GPU's memory, above 0 and at most 1; "
                "found "
                f"{self.gpu_memory_utilization}",
                param="gpu_memory_utilization",
            )


@dataclass(frozen=True)
class EngineConfig:
    """Everything an engine is built from.

    model:          folder of the target checkpoint; left out: the shipped model
    spec:           how drafts are made; left out: there are none
    guide:          how grammars run; None: the engine refuses requests with a guide, and its
                    iterations have nothing of the grammar in them
    cache:          the key-value cache
    quantization:   "fp8": the target's weights are rounded to 8-bit floats as they are read, with a
                    scale for each row, and its inputs with one for each token; "int4": to integers
                    of 4 bits, with a scale and a zero for each group of 128 columns. The output
                    matrix stays as it is. Left out: as the checkpoint has them
    model_impl:     what runs the target: "native": a family of ours; "transformers": that library's
                    modules with our attention and products, for any decoder-only architecture;
                    "auto": the second where there is no first
    device, dtype:  torch names; left out: CUDA and bfloat16 where there is a GPU, else CPU and
                    float32
    max_batch_size: slots
    max_model_len:  longest prompt plus output, tokens; left out: the model's own
    max_prefill_tokens: most tokens of prompts that are computed in an iteration; a longer prompt is
                    computed in chunks
    mixed_iterations: decode iterations compute chunks of other requests' prompts in the target's
                    same pass; else prompts have iterations of their own between them
    max_step_ms:    longest time that an iteration in which requests decode is to take,
                    milliseconds, and so the gap between their tokens: chunks of prompts are made to
                    fit, from the times of earlier iterations; left out: on a GPU 25 ms, or 3.5
                    times as long as without prompts where that is more, and on a CPU only
                    max_prefill_tokens bounds them
    tensor_parallel_size: ranks, each a process with a device of its own, among which heads, inner
                    features and output matrix of the target are divided; drafters each rank has
                    as a whole
    rank_timeout_s: longest that ranks wait for one another in an iteration, seconds; then the
                    engine fails, with an error that names the rank
    lag:            iterations that are launched before the results of an earlier one are read, 0 to
                    2; left out: 1 on a GPU, which then never waits for the host, and 0 on a CPU
    enforce_eager:  run decode iterations on a GPU kernel by kernel instead of as captured graphs;
                    for comparison
    trace:          record a timeline; costs some microseconds an iteration
    """

    model: str | Path | None = None
    spec: SpecConfig | None = None
    guide: GuideConfig | None = field(default_factory=GuideConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    max_batch_size: int = 16
    max_model_len: int | None = None
    max_prefill_tokens: int = 2048
    mixed_iterations: bool = True
    max_step_ms: float | None = None
    quantization: str | None = None
    model_impl: str = "auto"
    device: str | None = None
    dtype: str | None = None
    tensor_parallel_size: int = 1
    rank_timeout_s: float = 60.0
    lag: int | None = None
    enforce_eager: bool = False
    trace: bool = False

    def __post_init__(self) -> None:
        if self.lag is not None and not 0 <= self.lag <= 2:
            raise InvalidParams(f"lag must be 0 to 2, found {self.lag}", param="lag")
        if self.max_step_ms is not None and not self.max_step_ms > 0:
            raise InvalidParams(
                f"max_step_ms must be > 0, found {self.max_step_ms}", param="max_step_ms"
            )
        if not self.rank_timeout_s > 0:
            raise InvalidParams(
                f"rank_timeout_s must be > 0, found {self.rank_timeout_s}", param="rank_timeout_s"
            )
        for name in ("max_batch_size", "max_prefill_tokens", "tensor_parallel_size"):
            if getattr(self, name) < 1:
                raise InvalidParams(f"{name} must be ≥ 1, found {getattr(self, name)}", param=name)
        if self.guide is None and self.spec is not None:
            self.spec.layout.check_without_guides()
