"""Owns how a request's parameters become its Adjustment: checked, and with token ids."""

from __future__ import annotations

from collections.abc import Iterable

from specguide.batch import Adjustment
from specguide.errors import InvalidParams
from specguide.params import SamplingParams
from specguide.tokenizer import Tokenizer

MAX_SEQUENCES = 128
"""Most bad words of two or more tokens of a request; each spelling of a word counts."""
MAX_SEQUENCE_LEN = 32
"""Most tokens of a bad word."""


def adjustment_of(
    params: SamplingParams, tokenizer: Tokenizer, vocab_size: int
) -> Adjustment | None:
    """The adjustment that a request's parameters ask for; None where logits stay as they are.

    Raises InvalidParams for a token id outside the vocabulary, and for bad words that are too
    many or too long.
    """
    names = (
        "allowed_token_ids",
        "bad_words",
        "logit_bias",
        "min_tokens",
        "repetition_penalty",
        "frequency_penalty",
        "presence_penalty",
    )
    given = [name for name in names if getattr(params, name) != getattr(_NEUTRAL, name)]
    if not given:
        return None
    for name in ("allowed_token_ids", "logit_bias"):
        outside = [token for token in getattr(params, name) or () if token >= vocab_size]
        if outside:
            raise InvalidParams(
                f"{name} has token {outside[0]}, which is not a token id of this model, which has "
                f"the ids 0 to {vocab_size - 1}",
                param=name,
            )
    sequences = _spellings(params.bad_words, tokenizer, vocab_size)
    ends = {*tokenizer.eos_token_ids, *(params.stop_token_ids if params.guide is None else ())}
    return Adjustment(
        allowed_ids=params.allowed_token_ids,
        forbidden_ids=tuple(sequence[0] for sequence in sequences if len(sequence) == 1),
        forbidden_sequences=tuple(sequence for sequence in sequences if len(sequence) > 1),
        bias=dict(params.logit_bias or {}),
        min_tokens=params.min_tokens,
        end_ids=tuple(sorted(token for token in ends if token < vocab_size)),
        repetition=params.repetition_penalty,
        frequency=params.frequency_penalty,
        presence=params.presence_penalty,
    )


_NEUTRAL = SamplingParams()


def _spellings(
    words: Iterable[str], tokenizer: Tokenizer, vocab_size: int
) -> list[tuple[int, ...]]:
    """The spellings of each word as tokens: at the beginning of a text, and after a space.
    Spellings that end with another spelling are left out, and those with a token id outside the
    vocabulary, which is never output.

    vLLM leaves out the second spelling where it is longer than the first; there the word can be
    output.
    """
    sequences: dict[tuple[int, ...], None] = {}
    for word in words:
        for text in (word.lstrip(), " " + word.lstrip()) if word.strip() else (word,):
            sequence = tuple(tokenizer.encode(text, add_special_tokens=False))
            if not 0 < len(sequence) <= MAX_SEQUENCE_LEN:
                raise InvalidParams(
                    f"bad_words has {word!r}, which is {len(sequence)} tokens; give words of 1 to "
                    f"{MAX_SEQUENCE_LEN} tokens",
                    param="bad_words",
                )
            sequences[sequence] = None
    found = [
        sequence
        for sequence in sequences
        if max(sequence) < vocab_size
        and not any(sequence[start:] in sequences for start in range(1, len(sequence)))
    ]
    num_long = sum(len(sequence) > 1 for sequence in found)
    if num_long > MAX_SEQUENCES:
        raise InvalidParams(
            f"bad_words has {num_long} sequences of several tokens, where each word counts with "
            f"and without a space before it; at most {MAX_SEQUENCES} are supported: give fewer "
            "words",
            param="bad_words",
        )
    return found
