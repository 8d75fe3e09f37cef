"""Small random models as GGUF files, by the `gguf` package's writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizer_kinds import byte_level
from tokenizers import Tokenizer as Backend
from torch import Tensor
from transformers import PreTrainedModel

TEMPLATE = (
    "{% for message in messages %}<|begin|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>{% endif %}"
)
Q = gguf.GGMLQuantizationType


def write_gguf(
    path: Path, model: PreTrainedModel, arch: str = "llama", kind: Q = Q.F32, **extra: Any
) -> Path:
    """kind: of its matrices; extra: metadata of the architecture's own, dots as two underlines"""
    c = model.config
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_block_count(c.num_hidden_layers)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_key_length(c.head_dim if hasattr(c, "head_dim") else c.hidden_size // 4)
    for name, value in extra.items():
        adds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
        adds.get(type(value), writer.add_string)(f"{arch}.{name.replace('__', '.')}", value)
    add_tokenizer(writer, c.vocab_size)
    names = gguf.get_tensor_name_map(
        next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == arch),
        c.num_hidden_layers,
    )
    for name, tensor in model.state_dict().items():
        if c.tie_word_embeddings and name == "lm_head.weight":
            continue
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            is_query = "q_proj" in name
            tensor = permuted(tensor, c.num_attention_heads if is_query else c.num_key_value_heads)
        add_tensor(writer, stored, tensor.numpy(), kind)
    if c.rope_parameters["rope_type"] == "llama3":
        add_tensor(writer, "rope_freqs.weight", rope_factors(model), Q.F32)
    return _closed(writer, path)


def add_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray, kind: Q) -> None:
    """Norms and biases are never quantized."""
    if values.ndim == 1 or kind == Q.F32:
        writer.add_tensor(name, np.ascontiguousarray(values, np.float32))
    else:
        writer.add_tensor(name, gguf.quantize(values.astype(np.float32), kind), raw_dtype=kind)


def permuted(rows: Tensor, num_heads: int) -> Tensor:
    """As llama.cpp has the rows of queries and keys: those that are rotated together beside each
    other."""
    return rows.unflatten(0, (num_heads, 2, -1)).transpose(1, 2).reshape(rows.shape)


def rope_factors(model: PreTrainedModel) -> np.ndarray:
    """float32 [head_dim / 2], by which llama.cpp divides the frequencies of a plain rope."""
    rope = model.config.rope_parameters
    stretched = model.model.rotary_emb.inv_freq
    exponents = np.arange(len(stretched), dtype=np.float32) / np.float32(len(stretched))
    return 1.0 / rope["rope_theta"] ** exponents / stretched.numpy()


def add_tokenizer(writer: gguf.GGUFWriter, vocab_size: int) -> None:
    model = json.loads(byte_level().to_str())["model"]
    known = sorted(model["vocab"], key=model["vocab"].get)[:vocab_size]
    tokens = [*known, *(f"[unused{n}]" for n in range(vocab_size - len(known)))]
    merges = [" ".join(pair) for pair in model["merges"] if "".join(pair) in known]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_merges(merges)
    kinds = gguf.TokenType
    writer.add_token_types(
        [kinds.CONTROL if token.startswith("<|") else kinds.NORMAL for token in tokens]
    )
    writer.add_eos_token_id(tokens.index("<|end|>"))
    writer.add_bos_token_id(tokens.index("<|begin|>"))
    writer.add_chat_template(TEMPLATE)


def write_vocabulary(path: Path, backend: Backend, pre: str, **numbers: int | bool) -> Path:
    """The tokenizer of a byte-level kind, beside embeddings and nothing else, as llama.cpp converts
    one. numbers: metadata of the tokenizer's own"""
    writer = _writer_of(path, backend, "gpt2", numbers)
    writer.add_tokenizer_pre(pre)
    return _closed(writer, path)


def write_sentencepiece(path: Path, backend: Backend, **numbers: int | bool) -> Path:
    """The same of a vocabulary of SentencePiece's."""
    writer = _writer_of(path, backend, "llama", numbers)
    writer.add_tokenizer_pre("default")
    writer.add_token_scores([-float(index) for index in range(backend.get_vocab_size())])
    return _closed(writer, path)


def _writer_of(
    path: Path, backend: Backend, model: str, numbers: dict[str, Any]
) -> gguf.GGUFWriter:
    state = json.loads(backend.to_str())
    added = {token["content"]: token["special"] for token in state["added_tokens"]}
    ids = backend.get_vocab(with_added_tokens=True)
    tokens = sorted(ids, key=lambda token: ids[token])
    kinds = gguf.TokenType
    of_added = {True: kinds.CONTROL, False: kinds.USER_DEFINED, None: kinds.NORMAL}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types([of_added[added.get(token)] for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in state["model"]["merges"]])
    for name, value in numbers.items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
        add(f"tokenizer.ggml.{name}", value)
    add_tensor(writer, "token_embd.weight", np.zeros((len(tokens), 1)), Q.F32)
    return writer


def _closed(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
