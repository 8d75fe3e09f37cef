"""Owns the search for many texts in many others at once: an automaton after Aho and Corasick, in
time that grows with the length of all."""

from __future__ import annotations

from collections.abc import Iterable


class HeldTexts:
    """Some texts, to be looked for in others.

    A state says how much of one of them has been read, and has its ways on by a character, the
    state of the longest end of it that one of them begins with, the text that has come to its end
    there, and one that ends there with it or within it.
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
        for state in queue:  # which grows
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
        """One of the texts that stands somewhere in another; None where none does."""
        state = 0
        for char in text:
            state = self._after(state, char, self._shorter)
            if self._within[state] is not None:
                return self._within[state]
        return None

    def begins(self, text: str) -> bool:
        """Whether one of the texts is the beginning of another."""
        state: int | None = 0
        for char in text:
            state = self._ways[state or 0].get(char)
            if state is None:
                return False
            if self._ended[state] is not None:
                return True
        return False
