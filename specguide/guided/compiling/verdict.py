"""Owns the verdict on a guide: whether a compiled grammar can start, and the error where no backend
enforces the guide."""

from __future__ import annotations

import numpy as np

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import allowed_tokens
from specguide.guided.schema.pruning.prune import NoInstance
from specguide.tokenizer.vocabulary import Vocabulary


def check_start(grammar: CompiledGrammar, vocabulary: Vocabulary) -> None:
    """Fill a first row, accept a token that is no end token, and roll it back: some grammars
    compile, but cannot do that.

    Raises UnsupportedGuide.
    """
    row = np.zeros(vocabulary.num_words, np.int32)
    try:
        matcher = grammar.matcher()
        matcher.fill(row)
        ends = vocabulary.eos_token_ids
        first = next((int(token) for token in allowed_tokens(row) if token not in ends), None)
        if first is not None:
            matcher.accept(first)
            matcher.rollback(1)
    except Exception as error:
        raise UnsupportedGuide(f"{grammar.backend} compiles it and then fails: {error}") from None
    if not row.any():
        raise UnsupportedGuide(
            f"{grammar.backend} compiles it and then allows no token at all; make it match a text"
        )


def _named(names: list[str], reason: str) -> str:
    """An error's words with the names of its backends."""
    is_named = len(names) == 1 and reason.startswith(f"{names[0]} ")
    return reason if is_named else f"{' and '.join(names)}: {reason}"


def why_none(guide: Guide, reasons: dict[str, InvalidGuide]) -> InvalidGuide:
    """One error for the errors of all backends. It is the first one where all say that the guide is
    malformed, or where the best backend says that no value fits; else it has the words of all."""
    best = next(iter(reasons.values()), None)
    if isinstance(best, NoInstance):
        return UnsupportedGuide(str(best))
    if reasons and not any(isinstance(reason, UnsupportedGuide) for reason in reasons.values()):
        return next(iter(reasons.values()))
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(str(reason), []).append(name)
    words = "; ".join(_named(names, reason) for reason, names in grouped.items())
    named = next((reason for reason in reasons.values() if getattr(reason, "keyword", None)), None)
    error = UnsupportedGuide(
        f"no grammar backend enforces this {guide.kind} ({words})",
        keyword=getattr(named, "keyword", None),
        path=getattr(named, "path", None),
    )
    error.part = next((reason.part for reason in reasons.values() if reason.part is not None), None)
    return error
