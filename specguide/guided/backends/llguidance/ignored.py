"""Owns the check of `%ignore` beside nested grammars in Lark.

The library ends a request with a panic where ignored text stands behind a terminal, at a position
where both another terminal and a nested grammar (`%json`, `%lark`) may come. So this computes what
may follow each terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.notations.grammar_form import behind_mark, behind_space, behind_token

_NESTED, _TERMINAL = 1, 2
_BOTH = _NESTED | _TERMINAL
_LONGEST_COUNT = 50
"""Most characters of a count in braces."""


@dataclass
class _Item:
    """A part of a rule: a terminal or nested grammar (`kind`), a rule by its name, or choices
    between sequences. may_lack, may_repeat: what its count allows"""

    kind: int = 0
    name: str = ""
    choices: list[list[_Item]] = field(default_factory=list)
    may_lack: bool = False
    may_repeat: bool = False


@dataclass
class _Rule:
    """first: kinds with which its texts begin; follow: kinds that may follow it"""

    choices: list[list[_Item]] = field(default_factory=lambda: [[]])
    first: int = 0
    may_be_empty: bool = False
    follow: int = 0


def check_ignored(source: str) -> None:
    """Raises UnsupportedGuide where ignored text could end a request."""
    if "%ignore" not in source or not ("%json" in source or "%lark" in source or "@" in source):
        return
    spend(len(source))
    rules, ignores = _read(source)
    if ignores and _Follow(rules).is_mixed:
        raise UnsupportedGuide(
            "%ignore is ambiguous where a terminal may be followed by a schema or nested grammar "
            "(%json, %lark), but also by another terminal: leave %ignore out and write the "
            "whitespace into the rules, or use the terminal before the schema alone"
        )


def _read(source: str) -> tuple[dict[str, _Rule], bool]:
    """The rules, and whether anything is ignored. Raises UnsupportedGuide where a nested grammar
    fails `check_ignored`."""
    rules: dict[str, _Rule] = {}
    ignores = False
    stack = [_Rule().choices]  # collects what stands before the first rule, unread
    for kind, text in _tokens(source):
        sequence = stack[-1][-1]
        if kind == "head":
            is_rule = not text[0].isupper()
            stack = [(rules.setdefault(text, _Rule()) if is_rule else _Rule()).choices]
        elif kind == "directive":
            ignores |= text == "%ignore"
            stack = [_Rule().choices]
        elif kind == "nested":
            sequence.append(_Item(_NESTED))
            check_ignored(text)
        elif kind == "text" or (kind == "word" and text[0].isupper()):
            sequence.append(_Item(_TERMINAL))
        elif kind == "word":
            sequence.append(_Item(name=text))
        elif kind == "count" and sequence:
            sequence[-1].may_repeat = True
            sequence[-1].may_lack |= int(text or 0) == 0
        elif kind == "sign":
            _take_sign(text, stack)
    return rules, ignores


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    """The parts of a grammar, each with its kind: a rule's head, a directive, a nested grammar with
    its text if in Lark, a word, the text of a terminal, the least number of a count, a sign."""
    at, line_end = 0, -1
    while at < len(source):
        if at > line_end:  # a line begins
            line_end = source.find("\n", at)
            line_end = len(source) if line_end < 0 else line_end
            name, behind = _head(source, at, line_end)
            if name:
                yield ("directive" if name[0] == "%" else "head"), name
                at = behind
                continue
        if source[at] == "#" or source.startswith("//", at):
            at = line_end
            continue
        kind, text, at = _token(source, at)
        line_end = max(line_end, at - 1)
        if kind:
            yield kind, text


def _token(source: str, at: int) -> tuple[str, str, int]:
    """Kind, text and end of the part at a position; "" for parts that do not matter."""
    char = source[at]
    if char in '"/':
        return "text", "", _behind_word(source, behind_mark(source, at + 1, char) or len(source))
    if char == "<":
        return "text", "", behind_token(source, at)
    if char in "%@":
        begin = _behind_word(source, at + 1)
        end = _behind_braces(source, begin)
        word = source[at:begin]
        body = source[begin:end].strip()[1:-1] if word == "%lark" else ""
        return ("text" if word == "%regex" else "nested"), body, end
    if char in "{~":
        end = source.find("}", at, at + _LONGEST_COUNT) if char == "{" else at
        least = source[at + 1 : at + 12].lstrip()
        end_of_least = next((i for i, one in enumerate(least) if not one.isdecimal()), len(least))
        return "count", least[:end_of_least], 1 + max(at, end)
    if char.isalpha() or char == "_":
        end = _behind_word(source, at)
        return "word", source[at:end], end
    if source.startswith("->", at):
        return "", "", _behind_word(source, behind_space(source, at + 2))
    return ("sign" if char in "()[]|?*+" else ""), char, at + 1


def _head(source: str, at: int, line: int) -> tuple[str, int]:
    """The name of the rule or directive that begins with a line, and the position behind its head;
    "" where none begins."""
    text = source[at:line]
    if text.startswith("%"):
        return text.split(None, 1)[0], at + len(text.split(None, 1)[0])
    name = text.partition(":")[0].partition("[")[0].strip().lstrip("?!").partition(".")[0]
    behind = text.find(":", text.find("]") if "[" in text.partition(":")[0] else 0) + 1
    return (name, at + behind) if name.isidentifier() and behind else ("", at)


def _behind_word(source: str, at: int) -> int:
    while source[at : at + 1].isalnum() or source[at : at + 1] == "_":
        at += 1
    return at


def _take_sign(sign: str, stack: list[list[list[_Item]]]) -> None:
    sequence = stack[-1][-1]
    if sign in "([":
        sequence.append(_Item(choices=[[]], may_lack=sign == "["))
        stack.append(sequence[-1].choices)
    elif sign in ")]" and len(stack) > 1:
        stack.pop()
    elif sign == "|":
        stack[-1].append([])
    elif sign in "?*+" and sequence:
        sequence[-1].may_lack |= sign in "?*"
        sequence[-1].may_repeat |= sign in "*+"


def _behind_braces(source: str, at: int) -> int:
    """The position behind the braces that follow, if any do; the source's end where they are never
    closed."""
    depth, start = 0, at
    while at < len(source):
        char = source[at]
        if depth == 0 and not (char.isspace() or char == "{"):
            return start
        depth += {"{": 1, "}": -1}.get(char, 0)
        at = (behind_mark(source, at + 1, char) or len(source)) if char in '"/' else at + 1
        if depth == 0 and char == "}":
            return at
    return at


class _Follow:
    """Computes what may follow each terminal of some rules."""

    def __init__(self, rules: dict[str, _Rule]) -> None:
        self.is_mixed = False
        """Whether both a terminal and a nested grammar may follow some terminal."""
        self._rules = rules
        self._changes = True
        while self._changes:
            self._changes = False
            for rule in reversed(rules.values()):  # most stand before those that they name
                self._set_first(rule)
        self._changes = True
        while self._changes and not self.is_mixed:
            self._changes = False
            for rule in rules.values():
                self._visit(rule.choices, rule.follow)

    def _set_first(self, rule: _Rule) -> None:
        first = self._first_of(rule.choices)
        self._changes |= first != (rule.first, rule.may_be_empty)
        rule.first, rule.may_be_empty = first

    def _first_of(self, choices: list[list[_Item]]) -> tuple[int, bool]:
        first, may_be_empty = 0, False
        for sequence in choices:
            spend(1 + len(sequence))
            for item in sequence:
                kinds, may_lack = self._first(item)
                first |= kinds
                if not may_lack:
                    break
            else:
                may_be_empty = True
        return first, may_be_empty

    def _first(self, item: _Item) -> tuple[int, bool]:
        if item.kind:
            return item.kind, item.may_lack
        if item.name:
            rule = self._rules.get(item.name, _Rule())
            return rule.first, rule.may_be_empty or item.may_lack
        first, may_be_empty = self._first_of(item.choices)
        return first, may_be_empty or item.may_lack

    def _visit(self, choices: list[list[_Item]], follow: int) -> None:
        """follow: kinds that may follow the choices"""
        for sequence in choices:
            behind = follow
            for item in reversed(sequence):
                first, may_lack = self._first(item)
                self._visit_item(item, behind | (first if item.may_repeat else 0))
                behind = first | (behind if may_lack else 0)

    def _visit_item(self, item: _Item, follow: int) -> None:
        spend()
        if item.kind:
            self.is_mixed |= item.kind == _TERMINAL and follow == _BOTH
        elif item.name:
            rule = self._rules.get(item.name)
            if rule is not None and rule.follow | follow != rule.follow:
                rule.follow |= follow
                self._changes = True
        else:
            self._visit(item.choices, follow)
