"""Broken model folders: whatever is wrong in them is a CheckpointError that names the file."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import eagle3_heads
import mtp_heads
import pytest
import tiny
from checkpoint_files import changed_json, config_in, save_checkpoint, weights_in
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from specguide.errors import CheckpointError
from specguide.models import Decoder, Eagle3Head, MtpHead, config_of, read_config
from specguide.tokenizer import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:config.json")

ODD_VALUES = [
    None,
    True,
    "\ud800",
    -1,
    0,
    7.5,
    10**12,
    1e308,
    float("nan"),
    [],
    [[]],
    ["x"],
    {},
    {"rope_type": []},
]
FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "model.safetensors.index.json",
)
Load = Callable[[Path], object]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return eagle3_heads.load_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def mimo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mtp_heads.save_mimo(tmp_path_factory.mktemp("mimo"))


@contextmanager
def little_memory(num_bytes: int = 2**30) -> Iterator[None]:
    """Give no more than `num_bytes` beside what the process has: an allocation of an absurd size
    fails here at once."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (in_use + num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def loads_or_says_why(load: Load, folder: Path) -> None:
    with little_memory():
        try:
            load(folder)
        except CheckpointError as error:
            assert str(folder) in str(error)
            assert len(str(error)) < 1000


def check_every_field(load: Load, folder: Path, config: dict[str, Any]) -> None:
    for name in config:
        for value in ODD_VALUES:
            (folder / "config.json").write_text(json.dumps({**config, name: value}))
            loads_or_says_why(load, folder)


MORE_FIELDS: dict[str, Any] = {
    "rope_scaling": None,
    "layer_types": None,
    "sliding_window": None,
    "use_sliding_window": None,
    "max_window_layers": None,
    "original_max_position_embeddings": None,
    "attention_bias": None,
    "mlp_bias": None,
    "partial_rotary_factor": None,
}


def test_any_field_of_a_model(tmp_path: Path) -> None:
    eagle3_heads.load_target(tmp_path)
    check_every_field(Decoder.load, tmp_path, {**MORE_FIELDS, **config_in(tmp_path)})


EXPERT_FIELDS: dict[str, Any] = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
GPT_OSS_FIELDS: dict[str, Any] = {
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "experts_per_token": 2,
    "swiglu_alpha": 1.702,
    "swiglu_limit": 7.0,
    "initial_context_length": 64,
    "quantization_config": {"quant_method": "mxfp4"},
}
GEMMA_FIELDS: dict[str, Any] = {
    "query_pre_attn_scalar": 16,
    "rope_local_base_freq": 1e4,
    "sliding_window_pattern": 2,
    "hidden_activation": None,
    "hidden_act": None,
    "rope_parameters": {"full_attention": {"rope_type": "default"}},
}


@pytest.mark.parametrize(
    ("architecture", "more"),
    [
        ("MistralForCausalLM", {}),
        ("Qwen2ForCausalLM", {}),
        ("Qwen3ForCausalLM", {}),
        ("Qwen3MoeForCausalLM", EXPERT_FIELDS),
        ("OlmoeForCausalLM", {"num_experts": 4, "num_experts_per_tok": 2, "clip_qkv": None}),
        ("MixtralForCausalLM", {"num_local_experts": 4, "num_experts_per_tok": 2}),
        ("GptOssForCausalLM", GPT_OSS_FIELDS),
        ("Gemma3ForCausalLM", GEMMA_FIELDS),
    ],
)
def test_any_field_of_a_configuration(
    architecture: str, more: dict[str, Any], tmp_path: Path
) -> None:
    config = {
        **MORE_FIELDS,
        **eagle3_heads.CONFIG,
        "architectures": [architecture],
        "num_hidden_layers": 3,
        **more,
    }
    check_every_field(
        read_config,
        tmp_path,
        {**config, "use_sliding_window": True, "sliding_window": 4},
    )


def test_any_field_of_an_eagle3_head(target: Decoder, tmp_path: Path) -> None:
    config = eagle3_heads.CONFIG
    save_checkpoint(tmp_path, config, eagle3_heads.random_head(config))
    more = {
        "eagle_config": None,
        "transformer_layer_config": None,
        "target_layer_ids": None,
        "norm_output": None,
        "aux_hidden_state_layer_ids": None,
        "num_aux_hidden_states": None,
        "target_hidden_size": None,
        "norm_before_residual": False,
    }
    check_every_field(
        lambda folder: Eagle3Head.load(folder, target), tmp_path, {**MORE_FIELDS, **more, **config}
    )


def test_any_field_of_an_mtp_head(mimo: Path, tmp_path: Path) -> None:
    target = Decoder.load(mimo)
    save_checkpoint(tmp_path, mtp_heads.CONFIG, weights_in(mimo))
    check_every_field(
        lambda folder: MtpHead.load(folder, target), tmp_path, {**MORE_FIELDS, **mtp_heads.CONFIG}
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda some: (
        st.lists(some, max_size=4) | st.dictionaries(st.text(max_size=9), some, max_size=4)
    ),
    max_leaves=6,
)
FIELDS = [*MORE_FIELDS, *eagle3_heads.CONFIG, "quantization_config", "favourite_colour"]


@settings(max_examples=150, deadline=None)
@given(
    changes=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=9), JSON_VALUES, max_size=3)
)
def test_any_configuration(changes: dict[str, Any]) -> None:
    config = {**eagle3_heads.CONFIG, "architectures": ["Qwen3ForCausalLM"], **changes}
    with suppress(CheckpointError):
        config_of(json.loads(json.dumps(config)))


DOCUMENTS = [
    b"",
    b"\xff\xfe{}",
    b"null",
    b"3",
    b"[]",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a": 1,}',
    b"\0",
    b'{"eos_token_id": ' + b"9" * 5000 + b"}",
    b'{"vocab_size": 272, "vocab_size": 273}',
    b'{"eos_token_id": "x"}',
    b'{"eos_token_id": [[]]}',
    b'{"weight_map": {"x": 3}}',
]


@pytest.mark.parametrize("name", FILES)
def test_any_document_in_any_file(name: str, tmp_path: Path) -> None:
    tiny.save_target(tmp_path)
    for document in DOCUMENTS:
        (tmp_path / name).write_bytes(document)
        for load in (Decoder.load, Tokenizer.from_folder):
            loads_or_says_why(load, tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    for load in (Decoder.load, Tokenizer.from_folder):
        loads_or_says_why(load, tmp_path)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[" * 100_000, r"config\.json: is nested too deeply to be read"),
        (
            '{"a": "\ud800"}'.encode("utf-8", "surrogatepass"),
            r"config\.json: is not JSON: 'utf-8' codec can't decode",
        ),
        (
            '{"hidden_size": 8, "hidden_size": 9}',
            r"config\.json: is not JSON: 'hidden_size' is given twice, with diff",
        ),
        ('{"architectures": 3}', r"config\.json: 'architectures' must be a list of names, found 3"),
    ],
)
def test_documents_that_are_no_configuration(
    document: str | bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_bytes(
        document if isinstance(document, bytes) else document.encode()
    )
    with pytest.raises(CheckpointError, match=message):
        Decoder.load(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rms_norm_eps": "x"}, r"config\.json: 'rms_norm_eps' must be a number, found 'x'"),
        ({"rms_norm_eps": -1e-6}, "'rms_norm_eps' must be a finite number > 0"),
        ({"layer_types": 3}, "'layer_types' must be .* for each of the 6 layers, found 3"),
        (
            {"hidden_size": 10**12},
            r"'hidden_size' must be at most 4194304, found 1000000000000",
        ),
        (
            {"hidden_size": 2**22},
            r"the weights do not fit config\.json; weights of the wrong shape",
        ),
        ({"vocab_size": 2**26}, r"lm_head\.weight \(expected \[67108864, 24\], found \[90, 24\]\)"),
        ({"num_hidden_layers": 1024}, "missing weights: "),
        (
            {"max_position_embeddings": 10**9},
            "'max_position_embeddings' must be at most .*, found 1000000000",
        ),
        (
            {"tie_word_embeddings": "false"},
            "'tie_word_embeddings' must be true or false, found 'false'",
        ),
    ],
)
def test_what_is_wrong_is_told_before_memory_is_taken(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    eagle3_heads.load_target(tmp_path)
    with changed_json(tmp_path) as config:
        config |= settings
    with little_memory(), pytest.raises(CheckpointError, match=message):
        Decoder.load(tmp_path)


def shard(folder: Path, names: dict[str, Any]) -> Path:
    """The weights of a folder in one shard, and an index that says where each is."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_file(weights, folder / "a.safetensors")
    weight_map = {**dict.fromkeys(weights, "a.safetensors"), **names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("/etc/x.safetensors", "names a file outside the folder: '/etc/x.safetensors'"),
        ("../x.safetensors", "names a file outside the folder: '../x.safetensors'"),
        ("a/../../x.safetensors", "names .* outside the folder"),
        ("..\\x.safetensors", "names .* outside the folder"),
        ("link/x.safetensors", "names files outside the folder: link/x.safetensors"),
        (
            "pytorch_model.bin",
            "has no safetensors file for 'lm_head.weight', found 'pytorch_model.bin'",
        ),
        (3, "has no safetensors file for 'lm_head.weight', found 3"),
        ([], "has no safetensors file"),
        ("b.safetensors", "names files that are not in the folder: b.safetensors"),
        ("x" * 5000 + ".safetensors", "names files that are not in the folder"),
        ("\0.safetensors", "names files that are not in the folder"),
        ("folder.safetensors", "names files that are not in the folder"),
    ],
)
def test_an_index_stays_within_its_folder(place: Any, message: str, tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "x.safetensors"
    eagle3_heads.load_target(folder)
    save_file(load_file(folder / "model.safetensors"), outside)
    shard(folder, {"lm_head.weight": place})
    (folder / "folder.safetensors").mkdir()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        Decoder.load(folder)


def test_a_file_may_be_a_link(tmp_path: Path) -> None:
    """The caches of a hub are folders of links."""
    folder = tmp_path / "model"
    eagle3_heads.load_target(folder)
    shard(folder, {})
    (folder / "a.safetensors").rename(tmp_path / "blob")
    (folder / "a.safetensors").symlink_to(tmp_path / "blob")
    Decoder.load(folder)


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b"[]",
        b"\xff",
        b"{" * 500,
        b'{"x":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}',
        b'{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
        b'{"x":{"dtype":"Z9","shape":[1],"data_offsets":[0,4]}}',
        b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
        b'{"x":3}',
        b'{"__metadata__":3}',
        b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4000000000000]}}',
    ],
)
def test_headers_of_safetensors(header: bytes, tmp_path: Path) -> None:
    eagle3_heads.load_target(tmp_path)
    for length in (len(header), 2**62, 2**64 - 1, 0):
        (tmp_path / "model.safetensors").write_bytes(
            length.to_bytes(8, "little") + header + b"\0\0\0\0"
        )
        with (
            little_memory(),
            pytest.raises(CheckpointError, match=r"cannot be read as safetensors|missing weights"),
        ):
            Decoder.load(tmp_path)


@pytest.mark.parametrize("name", ["x" * 5000, "nul\0", "/dev/null", ""])
def test_names_that_are_no_folder(name: str, tmp_path: Path, target: Decoder) -> None:
    loads: list[Load] = [
        Decoder.load,
        Tokenizer.from_folder,
        lambda folder: Eagle3Head.load(folder, target),
        lambda folder: MtpHead.load(folder, target),
    ]
    for load in loads:
        with pytest.raises(CheckpointError):
            load(tmp_path / "none" / name)


def test_an_adapter_beside_a_model_is_not_left_aside(tmp_path: Path, target: Decoder) -> None:
    """transformers would apply the adapter."""
    eagle3_heads.load_target(tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    loads: list[Load] = [Decoder.load, lambda folder: Eagle3Head.load(folder, target)]
    for load in loads:
        with pytest.raises(CheckpointError, match="holds an adapter"):
            load(tmp_path)
