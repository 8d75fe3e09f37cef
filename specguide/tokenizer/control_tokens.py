"""Owns how text that merely looks like control tokens is kept from becoming them.

A control token is an added token that the tokenizer marks as special, or that ends an answer: a
chat template writes it to tell the model who speaks. If a user's text spells one, it must stay
text. The template's own control tokens are found by rendering it a second time with *marks*: in the
user's strings, a character of each control token is replaced by one that occurs nowhere else, so
the tokenizer finds only the template's own tokens. A token that begins in the template's text
counts as its own. Then these tokens are renamed in the text, and a twin of the tokenizer, whose
control tokens have names that nobody can guess, reads it. So each text between two control tokens
is tokenized whole, as usual.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specguide.errors import InvalidParams

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
"""Unicode's private-use characters, which have no meaning."""
_NAME_LENGTH = 12  # characters of a secret name, each one of 6,400


@dataclass(frozen=True)
class Marks:
    """Characters that replace others while a template renders them.

    hidden: the mark of each character that may begin a control token
    shown:  a second mark of each, which becomes the character again before the template renders
    kept:   texts whose first character is not hidden, since the template searches for them
    """

    hidden: Mapping[str, str]
    shown: Mapping[str, str]
    kept: Sequence[str]

    def of(self, value: Any) -> Any:
        """A value with all of its strings marked, keys among them."""
        return _mapped(value, self._marked)

    def undo(self, text: str) -> str:
        """The text with marks replaced by the characters that they stand for."""
        return text.translate(_table({mark: char for char, mark in self.hidden.items()}))

    def unescape(self, text: str) -> str:
        """The text in which JSON escapes of marks, written by a template, are turned back into
        marks."""
        for mark in self.hidden.values():
            text = text.replace(_escaped(mark), mark)
        return text

    def _marked(self, text: str) -> str:
        if not any(char in text for char in self.hidden):
            return text
        for kept in self.kept:
            text = text.replace(kept, self.shown[kept[0]] + kept[1:])
        return text.translate(_table(self.hidden)).translate(
            _table({mark: char for char, mark in self.shown.items()})
        )


@dataclass(frozen=True)
class Place:
    """Where a control token is in a text: characters `start` … `end` - 1."""

    name: str
    start: int
    end: int


class ControlTokens:
    """The control tokens of one tokenizer. Parts that are slow to build are built when first
    needed. Thread-safe."""

    def __init__(self, backend: Backend, eos_token_ids: Sequence[int]) -> None:
        self._backend = backend
        self._added = dict(sorted(backend.get_added_tokens_decoder().items()))
        control = {
            token: entry
            for token, entry in self._added.items()
            if entry.content and (entry.special or token in eos_token_ids)
        }
        self._names = {entry.content for entry in control.values()}
        self._tell_tales = {_tell_tale(name) for name in self._names}
        self._is_normalized = backend.normalizer is not None and any(
            entry.normalized for entry in control.values()
        )
        self._lock = threading.Lock()
        self._finder: Backend | None = None
        self._twin: _Twin | None = None

    def marks(self, values: Any, rendered: str, constants: Sequence[str]) -> Marks | None:
        """The marks for the strings that a template renders; None if no string can spell a control
        token.

        constants: strings that the template itself mentions, and may search for

        Raises InvalidParams if the text contains all characters that could be marks.
        """
        strings = "\0".join(_strings(values))
        hidden = sorted(filter(self._may_tell, set(strings)))
        if not hidden:
            return None
        text = strings + rendered
        chars = set(text)
        spare = (
            chr(code)
            for codes in _PRIVATE
            for code in codes
            if chr(code) not in chars and _escaped(chr(code)) not in text
        )
        try:
            hides, shows = (
                {char: next(spare) for char in hidden},
                {char: next(spare) for char in hidden},
            )
        except StopIteration:
            raise InvalidParams(
                "the messages use every private-use character of Unicode, and one must be free to "
                "mark texts; leave one of them out",
                param="messages",
            ) from None
        ends = {
            constant[at:]
            for constant in constants
            for at, char in enumerate(constant)
            if char in hides
        }
        kept = [
            end
            for end in ends
            if not any(name.startswith(end) or end.startswith(name) for name in self._names)
        ]
        return Marks(hides, shows, sorted(kept, key=len, reverse=True))

    def places(self, text: str) -> list[Place]:
        """Where the tokenizer finds control tokens in a text."""
        with self._lock:
            if self._finder is None:
                self._finder = self._made_finder()
        (read,) = self._finder.encode_batch([text], add_special_tokens=False)  # releases the GIL
        names = (self._finder.id_to_token(token) for token in read.ids)
        return [
            Place(name, *span)
            for name, span in zip(names, read.offsets, strict=True)
            if name in self._names
        ]

    def encode(self, text: str, places: Sequence[Place]) -> list[int]:
        """Token ids of a text that has control tokens in these places only."""
        with self._lock:
            if self._twin is None:
                self._twin = _Twin(self._backend, self._added, self._names)
        return self._twin.encode(text, places)

    def _may_tell(self, char: str) -> bool:
        told = self._backend.normalizer.normalize_str(char) if self._is_normalized else ""
        return char in self._tell_tales or any(one in self._tell_tales for one in told)

    def _made_finder(self) -> Backend:
        """A tokenizer that finds added tokens, and treats everything else as one word."""
        from tokenizers import Tokenizer as Backend
        from tokenizers import models

        finder = Backend(models.WordLevel({"": 0}, unk_token=""))
        if self._backend.normalizer is not None:
            finder.normalizer = self._backend.normalizer
        finder.add_tokens(list(self._added.values()))
        return finder


class _Twin:
    """A copy of the tokenizer whose control tokens have secret names, which no other text can
    spell."""

    def __init__(self, backend: Backend, added: Mapping[int, Any], names: set[str]) -> None:
        from tokenizers import AddedToken
        from tokenizers import Tokenizer as Backend

        codes = _PRIVATE[0]
        self._secret = {
            name: "".join(chr(secrets.choice(codes)) for _ in range(_NAME_LENGTH)) for name in names
        }
        self._backend = Backend(_renamed(backend.model, self._secret))
        if backend.normalizer is not None:
            self._backend.normalizer = backend.normalizer
        if backend.pre_tokenizer is not None:
            self._backend.pre_tokenizer = backend.pre_tokenizer
        tokens = {
            token: AddedToken(
                self._secret.get(entry.content, entry.content),
                single_word=entry.single_word,
                lstrip=entry.lstrip,
                rstrip=entry.rstrip,
                normalized=entry.normalized,
                special=entry.special,
            )
            for token, entry in added.items()
        }
        self._backend.add_tokens(list(tokens.values()))
        self._ids = {
            self._backend.token_to_id(entry.content): token for token, entry in tokens.items()
        }

    def encode(self, text: str, places: Sequence[Place]) -> list[int]:
        parts = []
        end = 0
        for place in places:
            found = text[place.start : place.end]
            parts += [
                text[end : place.start + len(found) - len(found.lstrip())],
                self._secret[place.name],
            ]
            end = place.end - len(found) + len(found.rstrip())
        (one,) = self._backend.encode_batch_fast(
            ["".join([*parts, text[end:]])], add_special_tokens=False
        )
        return [self._ids.get(token, token) for token in one.ids]


def _renamed(model: Any, names: Mapping[str, str]) -> Any:
    """The model itself if it has none of these entries; else a copy in which they have their new
    names."""
    if all(model.token_to_id(name) is None for name in names):
        return model
    from tokenizers import Tokenizer as Backend

    described = json.loads(Backend(model).to_str())
    state = described["model"]
    if isinstance(state["vocab"], dict):
        state["vocab"] = {names.get(entry, entry): token for entry, token in state["vocab"].items()}
    else:
        state["vocab"] = [[names.get(entry, entry), score] for entry, score in state["vocab"]]
    if "merges" in state:
        pairs = [
            tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair)
            for pair in state["merges"]
        ]
        state["merges"] = [
            pair for pair in pairs if names.keys().isdisjoint([*pair, "".join(pair)])
        ]
    if "unk_token" in state:
        state["unk_token"] = names.get(state["unk_token"], state["unk_token"])
    return Backend.from_str(json.dumps(described)).model


def _tell_tale(name: str) -> str:
    """A character of a control token's text, one that words do not have if possible."""
    return next((char for char in name if not char.isalnum() and not char.isspace()), name[0])


def _strings(value: Any) -> Iterator[str]:
    """All strings in a value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _strings(key)
            yield from _strings(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _strings(one)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_mapped(key, change): _mapped(one, change) for key, one in value.items()}
    return [_mapped(one, change) for one in value] if isinstance(value, (list, tuple)) else value


def _table(changes: Mapping[str, str]) -> dict[int, str]:
    return {ord(char): other for char, other in changes.items()}


def _escaped(char: str) -> str:
    """The JSON escape of a character, in ASCII."""
    return json.dumps(char)[1:-1]
