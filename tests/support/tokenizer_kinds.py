"""Small tokenizers of every kind, and texts that are hard for them."""

from __future__ import annotations

import json
from collections.abc import Callable

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    '{"name": "Zoë", "age": 42, "tags": ["a", "b"]}',
    "  indented\n\tlines\r\n",
    "Größe, naïve, 東京都, привет, 🙂👍🏽",
    "aaaa bbbb 1234 !!! ???",
] * 8

TEXTS = [
    *CORPUS[:5],
    "",
    " ",
    "   ",
    "\n\n\t",
    "日本語のテキスト",
    "🤖 emoji 👩‍👩‍👧 joined",
    "a\u0301 b\u200bc\u00a0d",
    "\x00\x7f\x80",
    "<|end|> <tool_call>",
    "x" * 300,
]

SPECIAL = ["<|end|>", "<|begin|>"]


def byte_level() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return backend


def sentencepiece_bpe() -> Backend:
    """A tokenizer like that of Llama 2 and Mistral: it writes spaces as ▁ and unknown characters as
    byte tokens."""
    trained = Backend(models.BPE())
    trained.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    trained.train_from_iterator(
        CORPUS[:2] * 8, trainers.BpeTrainer(vocab_size=120, show_progress=False)
    )
    model = json.loads(trained.to_str())["model"]
    entries = [
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *sorted(model["vocab"], key=model["vocab"].get),
    ]
    backend = Backend(
        models.BPE(
            vocab={entry: index for index, entry in enumerate(entries)},
            merges=[tuple(pair) for pair in model["merges"]],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    backend.normalizer = trained.normalizer
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(SPECIAL)
    return backend


def metaspace() -> Backend:
    backend = Backend(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(
        CORPUS, trainers.UnigramTrainer(vocab_size=150, special_tokens=SPECIAL, show_progress=False)
    )
    return backend


def metaspace_bpe() -> Backend:
    """Llama 2's tokenizer as `transformers` 5 rebuilds it: only the first text gets a ▁ in
    front."""
    backend = sentencepiece_bpe()
    backend.normalizer = None
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return backend


BUILDERS: dict[str, Callable[[], Backend]] = {
    "byte-level": byte_level,
    "sentencepiece": sentencepiece_bpe,
    "metaspace": metaspace,
    "metaspace-bpe": metaspace_bpe,
}
