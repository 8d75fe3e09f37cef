"""Owns how text is cut into pieces for a byte-level vocabulary in a GGUF file, by the kind that the
file states (`tokenizer.ggml.pre`), as in llama.cpp."""

from __future__ import annotations

from typing import Any

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}")

_OF_GPT2 = ("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "mpt", "olmo", "jais", "trillion")
_OF_LLAMA3 = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0")
_OF_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
_OF_QWEN2 = ("qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan")

PIECES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_GPT2, (_GPT2,)),
    **dict.fromkeys((*_OF_LLAMA3, "dbrx", "smaug-bpe"), (_LLAMA3,)),
    **dict.fromkeys(_OF_QWEN2, (_QWEN2,)),
    **dict.fromkeys(_OF_DIGITS, (r"\p{N}", _GPT2)),
    "deepseek-coder": _DEEPSEEK_CODER,
    "tekken": (_TEKKEN,),
}
"""Expressions that cut a text; each one cuts what the ones before it have left."""

AS_LLAMA3 = frozenset((*_OF_LLAMA3, "tekken"))
"""Kinds in which a piece that is a token becomes that token, whatever the merges would make of it;
a text begins with the begin token unless the file says otherwise."""


def cutting(pieces: tuple[str, ...]) -> Any:
    """A pre-tokenizer that cuts a text into pieces, and spells their bytes."""
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(one), "isolated") for one in pieces),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
