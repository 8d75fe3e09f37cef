"""Owns EngineConfig, the settings that a user gives for an engine, with those of its KV cache and
of KV transfer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from specguide.config.adapters import adapter_folders
from specguide.config.chat_template import template_text
from specguide.config.guide import GuideConfig
from specguide.config.spec import SpecConfig
from specguide.errors import InvalidParams
from specguide.inputs.field_values import check_types, converted

CACHE_DTYPES = ("auto", "bfloat16", "fp8", "fp8_e4m3")
ROLES = ("both", "prefill", "decode")
_MOST_SLOTS = 65_536


@dataclass(frozen=True)
class CacheConfig:
    """The paged key-value cache.

    page_size:              tokens a page
    num_pages:              pages in all; left out: as many as memory has room for
    gpu_memory_utilization: share of a GPU's memory that weights, buffers, graphs and cache may take
                            together; the cache takes what the others leave
    kv_cache_memory_bytes:  the cache's size, bytes; left out: on a GPU it follows from
                            gpu_memory_utilization; on a CPU it is a quarter of the free memory, and
                            no more than max_batch_size requests of full context need
    kv_cache_dtype:         dtype of keys and values, those of the drafter too: "bfloat16"; "fp8" or
                            "fp8_e4m3", 8-bit floats with the checkpoint's scales, or scale 1 where
                            it has none: the cache then has room for twice the tokens; "auto": "fp8"
                            where the target's checkpoint asks for it, else the models' dtype
    """

    page_size: int = 16
    num_pages: int | None = None
    gpu_memory_utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None
    kv_cache_dtype: str = "auto"

    def __post_init__(self) -> None:
        check_types(self)
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
                f"found {self.gpu_memory_utilization}",
                param="gpu_memory_utilization",
            )


@dataclass(frozen=True)
class TransferConfig:
    """Prefill and decode apart: one engine computes prompts, and others continue them.

    role:                  "prefill": computes prompts for other engines, sends them the keys and
                           values, and refuses requests of its own; "decode": asks such an engine to
                           compute its prompts, and computes them itself where that engine does not
                           answer; "both": neither sends nor asks
    kv_transfer_address:   address, tcp://HOST:PORT, at which a prefill engine listens and a decode
                           engine asks. Everybody who reaches it can have prompts computed and read
                           their keys: keep it within a trusted network
    kv_transfer_timeout_s: longest that a request waits for the keys of its prompt, seconds
    """

    role: str = "both"
    kv_transfer_address: str = "tcp://127.0.0.1:8998"
    kv_transfer_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        check_types(self)
        if self.role not in ROLES:
            raise InvalidParams(
                f"role {self.role!r} is unknown; known: {', '.join(ROLES)}", param="role"
            )
        host, _, port = self.kv_transfer_address.rpartition(":")
        if not host.startswith("tcp://") or not (port.isdecimal() and 0 < int(port) <= 65535):
            raise InvalidParams(
                "kv_transfer_address must have the form tcp://HOST:PORT, found "
                f"{self.kv_transfer_address!r}",
                param="kv_transfer_address",
            )
        if not 0 < self.kv_transfer_timeout_s < 86_400:
            raise InvalidParams(
                "kv_transfer_timeout_s must be a time in seconds, above 0 and below a day; found "
                f"{self.kv_transfer_timeout_s}",
                param="kv_transfer_timeout_s",
            )


@dataclass(frozen=True)
class EngineConfig:
    """Everything an engine is built from.

    model:          folder of the target checkpoint; left out: the shipped model
    spec:           how drafts are made; left out: there are none
    guide:          how grammars run; None: the engine refuses requests with a guide, and its
                    iterations have nothing of the grammar in them
    cache:          the key-value cache
    transfer:       prompts that one engine computes for another
    chat_template:  a file with a chat template in Jinja, or its text, in place of the model's own
    quantization:   "fp8": the target's weights are rounded to 8-bit floats as they are read, with a
                    scale for each row, and its inputs with a scale for each token; "int4": the
                    weights are rounded to integers of 4 bits, with a scale and a zero for each
                    group of 128 columns. The output matrix and the routers of experts stay as they
                    are. Left out: the weights stay as the checkpoint has them
    max_image_tokens: most vectors of images that are in memory at once, those of all running
                    requests together; an image has one for each of its tokens. 0: the model reads
                    text only, and its encoder is not loaded
    limit_images_per_prompt: most images of a request
    lora_modules:   the LoRA adapters that requests may choose, each as NAME=FOLDER; the folder is
                    as PEFT saves it. All of them stay on the device, beside the target
    model_impl:     what runs the target: "native": a model family of specguide; "transformers":
                    that library's modules with specguide's attention and matrix products, for any
                    decoder-only architecture; "auto": "native" where the family is known, else
                    "transformers"
    device:         where the engine runs, as torch names it; left out, or "auto": a GPU by CUDA
                    where there is one, else the CPU
    dtype:          what the models compute in, "bfloat16", "float16" or "float32"; left out, or
                    "auto": bfloat16 on a GPU, float32 on a CPU
    max_batch_size: most requests that run at once, each in a slot
    max_model_len:  longest prompt plus output, tokens; -1, or auto on the command line: the model's
                    own, or less where the KV cache has no room for it; left out: the model's own
    max_prefill_tokens: most tokens of prompts that are computed in an iteration; a longer prompt is
                    computed in chunks
    mixed_iterations: decode iterations compute chunks of other requests' prompts in the same pass
                    of the target; else prompts are computed in iterations of their own
    max_step_ms:    longest time that an iteration in which requests decode is to take,
                    milliseconds, and so the longest gap between their tokens: chunks of prompts are
                    sized to fit, from the times of earlier iterations; left out: on a GPU 25 ms, or
                    3.5 times as long as without prompts where that is more; on a CPU only
                    max_prefill_tokens bounds the chunks
    tensor_parallel_size: ranks, each a process with a device of its own, that divide heads, inner
                    features and output matrix among them: the target's, and those of a draft head
                    where their sizes allow it; each rank has the whole of a draft model
    pipeline_parallel_size: stages, each with tensor_parallel_size ranks, that divide the target's
                    layers and their keys among them; a pass goes through one stage after the other.
                    Each stage has the whole of the embeddings, output matrix and drafters
    num_micro_batches: parts into which a pass through several stages is cut, by request, so that
                    stages work at the same time; left out: as many as stages
    enable_expert_parallel: each rank has some whole experts of a mixture instead of a part of each
                    expert; the number of experts must be divisible by the number of ranks
    rank_timeout_s: longest that ranks wait for one another in an iteration, seconds; then the
                    engine fails, with an error that names the rank. At the start each has at least
                    300 s to come
    rank_address:   HOST:PORT of this host, at which `specguide join` on other hosts meets it; the
                    other hosts run the ranks for which there is no GPU here (on a CPU all ranks but
                    rank 0). Left out: all ranks are processes of this host
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
    transfer: TransferConfig = field(default_factory=TransferConfig)
    max_batch_size: int = 16
    max_model_len: int | None = None
    max_prefill_tokens: int = 2048
    mixed_iterations: bool = True
    max_step_ms: float | None = None
    chat_template: str | None = converted(None, template_text)
    quantization: str | None = None
    max_image_tokens: int = 16_384
    limit_images_per_prompt: int = 16
    lora_modules: tuple[str, ...] = ()
    model_impl: str = "auto"
    device: str | None = None
    dtype: str | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    num_micro_batches: int | None = None
    enable_expert_parallel: bool = False
    rank_timeout_s: float = 60.0
    rank_address: str | None = None
    lag: int | None = None
    enforce_eager: bool = False
    trace: bool = False

    @property
    def num_ranks(self) -> int:
        """Ranks of all stages together."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

    def __post_init__(self) -> None:
        check_types(self)
        if self.lag is not None and not 0 <= self.lag <= 2:
            raise InvalidParams(f"lag must be 0 to 2, found {self.lag}", param="lag")
        if self.max_step_ms is not None and not self.max_step_ms > 0:
            raise InvalidParams(
                f"max_step_ms must be > 0, found {self.max_step_ms}", param="max_step_ms"
            )
        for name in ("max_image_tokens", "limit_images_per_prompt"):
            if (value := getattr(self, name)) < 0:
                raise InvalidParams(f"{name} must be ≥ 0, found {value}", param=name)
        if not 0 < self.rank_timeout_s < 86_400:
            raise InvalidParams(
                "rank_timeout_s must be a time in seconds, above 0 and below a day; found "
                f"{self.rank_timeout_s}",
                param="rank_timeout_s",
            )
        for name in (
            "max_batch_size",
            "max_prefill_tokens",
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "num_micro_batches",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidParams(f"{name} must be ≥ 1, found {value}", param=name)
        if self.max_batch_size > _MOST_SLOTS:
            raise InvalidParams(
                f"max_batch_size must be ≤ {_MOST_SLOTS}, found {self.max_batch_size}",
                param="max_batch_size",
            )
        if self.rank_address is not None and self.num_ranks == 1:
            raise InvalidParams(
                "rank_address is only for engines of several ranks: leave it out, or raise "
                "tensor_parallel_size or pipeline_parallel_size",
                param="rank_address",
            )
        adapter_folders(self.lora_modules)
        if self.transfer.role != "both":
            self._check_role()
        if self.guide is None and self.spec is not None:
            self.spec.layout.check_without_guides()

    def _check_role(self) -> None:
        """Raises InvalidParams where other engines cannot use this one's keys."""
        if self.num_ranks > 1:
            raise InvalidParams(
                f"role {self.transfer.role!r} needs the whole KV cache on one device: leave out "
                "tensor_parallel_size and pipeline_parallel_size",
                param="role",
            )
