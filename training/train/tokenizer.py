"""Trains the byte-level BPE tokenizer on generated tasks and writes the tokenizer's half of a model
folder.

    python -m training.train.tokenizer --out specguide/assets/small/target

What makes copying easy: a digit is always a token of its own, and a word is cut the same way
wherever it stands, because a space belongs to a word only before common function words. JSON
punctuation merges (`": "`, `", "`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from tqdm import tqdm

from training.data import chat
from training.data.tasks import sample_task

VOCAB_SIZE = 4096
FUNCTION_WORDS = (  # noqa: SIM905
    "the a an of is are was were and or to for in on at by with from as it its that this be has "
    "have not no "
    "been will they you we about into"
).split()
PATTERN = "|".join(
    (
        rf" (?:{'|'.join(FUNCTION_WORDS)})(?![\p{{L}}\p{{N}}_])",
        r"\p{Lu}?\p{Ll}+",
        r"\p{Lu}+(?!\p{Ll})",
        r"\p{L}\p{M}*",
        r"\p{N}",
        r"\"?[\]}]*[,:] ?[\[{]*\"?",
        r"\"?[\]}]+",
        r"[\[{]+\"?",
        r" (?:[|=/–—]|->|-) ",
        r"\n *",
        r" {2,}",
        r"-{2,}|={2,}|\*{2,}|#{2,}|_{2,}|\.{2,}|`{2,}",
        r"\s",
        r"[^\s\p{L}\p{N}]",
    )
)


def corpus(seed: int, count: int) -> Iterator[str]:
    r = Random(seed)
    for _ in tqdm(range(count), desc="texts"):
        task = sample_task(r)
        yield chat.render_prompt(task) + task.answer


def train(seed: int, count: int, vocab_size: int = VOCAB_SIZE) -> Tokenizer:
    """A byte-level BPE tokenizer with the chat format's special tokens, ids 0 … 10 in the order of
    `training.data.chat`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [AddedToken(token, special=True, normalized=False) for token in chat.CONTROL_TOKENS]
    markers = [AddedToken(token, special=False, normalized=False) for token in chat.MARKER_TOKENS]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=control + markers,
        show_progress=False,
        max_token_length=16,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(corpus(seed, count), trainer)
    begin = tokenizer.token_to_id(chat.BEGIN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{chat.BEGIN} $A", special_tokens=[(chat.BEGIN, begin)]
    )
    return tokenizer


def save(tokenizer: Tokenizer, out: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json (chat template included)."""
    out.mkdir(parents=True, exist_ok=True)
    document = json.loads(tokenizer.to_str())
    markers = set(chat.MARKER_TOKENS)
    for token in document["added_tokens"]:
        token["special"] = token["content"] not in markers
    (out / "tokenizer.json").write_text(
        json.dumps(document, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": chat.BEGIN,
        "eos_token": chat.END,
        "pad_token": chat.PAD,
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "chat_template": chat.CHAT_TEMPLATE,
        "additional_special_tokens": [chat.SYSTEM, chat.USER, chat.ASSISTANT, chat.TOOL],
    }
    (out / "tokenizer_config.json").write_text(
        json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    tokenizer = train(args.seed, args.texts)
    save(tokenizer, args.out)
    print(
        f"{tokenizer.get_vocab_size()} tokens, "
        f"{(args.out / 'tokenizer.json').stat().st_size / 1e3:.0f} kB"
    )


if __name__ == "__main__":
    main()
