"""Tokenizers with chat templates."""

from __future__ import annotations

from functools import cache

from tokenizer_kinds import BUILDERS, CORPUS, SPECIAL
from tokenizer_subjects import subject
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from specguide.tokenizer import Tokenizer

RENAMED = {
    "<|begin|>": "<|bg|>",
    "<|end|>": "<|fn|>",
    "<|start_header_id|>": "<|bg|>",
    "<|eot_id|>": "<|fn|>",
}


@cache
def backend(kind: str) -> str:
    """As JSON."""
    if kind == "llama3":
        made = subject("llama3")._backend
    elif kind == "stripping":  # as Phi 3 has them
        made = BUILDERS["byte-level"]()
        made.add_special_tokens(
            [AddedToken("<|begin|>", lstrip=True), AddedToken("<|end|>", rstrip=True)]
        )
    elif kind == "lower":  # special tokens are looked for in text that has been normalized
        made = BUILDERS["byte-level"]()
        made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        made.add_tokens([AddedToken("<|begin|>", special=True, normalized=True)])
    elif kind == "metaspace":  # as T5 has them: entries of the model, of the best score there is
        made = Backend(models.Unigram())
        made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        made.train_from_iterator(
            CORPUS,
            trainers.UnigramTrainer(
                vocab_size=150,
                special_tokens=["<unk>", *SPECIAL],
                unk_token="<unk>",
                show_progress=False,
            ),
        )
    else:
        made = BUILDERS[kind]()
    if kind != "llama3":
        made.add_tokens(
            [AddedToken("<think>", special=False), AddedToken("</think>", special=False)]
        )
    return made.to_str()


def renamed(text: str, kind: str) -> str:
    for name, other in RENAMED.items():
        if ("id|" in name) == (kind == "llama3"):
            text = text.replace(name, other)
    return text


@cache
def chat(kind: str, *, is_oracle: bool = False) -> tuple[PreTrainedTokenizerFast, Tokenizer]:
    described = renamed(backend(kind), kind) if is_oracle else backend(kind)
    holder = PreTrainedTokenizerFast(
        tokenizer_object=Backend(models.BPE())
    )  # it copies what it is given
    return holder, Tokenizer(Backend.from_str(described), chat=holder)


def with_template(template: str, kind: str = "byte-level", *, is_oracle: bool = False) -> Tokenizer:
    holder, tokenizer = chat(kind, is_oracle=is_oracle)
    holder.chat_template = template
    return tokenizer
