"""Owns the search for many texts in others at the same time, with an automaton (Aho and Corasick).
Time grows with the length of all texts."""

from __future__ import annotations

from collections.abc import Iterable


class HeldTexts:
    """Texts to look for in others.

    Each state of the automaton stands for a prefix of one of the texts. It has the next states by
    character, the state of its longest proper suffix that is also a prefix, the text that it
    completes, and a text that is a suffix of it.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._ways: list[dict[str, int]] = [{}]
        self._ended: list[str | None] = [None]
        for text in texts:
            self._add(text)
        self._within = list(self._ended)
        self._shorter = self._with_shorter()

    def _add(self, text: str) -> None:
        state = 0
        for char in text:
            found = self._ways[state].get(char)
            if found is None:
                found = self._ways[state][char] = len(self._ways)
                self._ways.append({})
                self._ended.append(None)
            state = found
        self._ended[state] = text

    def _with_shorter(self) -> list[int]:
        shorter = [0] * len(self._ways)
        queue = list(self._ways[0].values())
        for state in queue:  # it grows
            for char, longer in self._ways[state].items():
                shorter[longer] = self._after(shorter[state], char, shorter)
                if self._within[longer] is None:
                    self._within[longer] = self._within[shorter[longer]]
                queue.append(longer)
        return shorter

    def _after(self, state: int, char: str, shorter: list[int]) -> int:
        while state and char not in self._ways[state]:
            state = shorter[state]
        return self._ways[state].get(char, 0)

    def within(self, text: str) -> str | None:
        """One of the texts that is anywhere inside another text; None where none is."""
        state = 0
        for char in text:
            state = self._after(state, char, self._shorter)
            if self._within[state] is not None:
                return self._within[state]
        return None

    def begins(self, text: str) -> bool:
        """Whether one of the texts is a prefix of another text."""
        state: int | None = 0
        for char in text:
            state = self._ways[state or 0].get(char)
            if state is None:
                return False
            if self._ended[state] is not None:
                return True
        return False
