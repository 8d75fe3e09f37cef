"""Owns the decision in which form a context-free grammar is written, and the splitting of EBNF into
literals and other text. Takes linear time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Literal

from specguide.errors import InvalidGuide

GrammarForm = Literal["EBNF", "Lark"]
_ENDS = {'"': '"', "[": "]"}
_LONGEST_TOKEN = 300
_MOST_DIGITS = 9
_ANY_CHARACTER = r"[\u0000-\U0010FFFF]"


def grammar_form(source: str) -> GrammarForm:
    """The form of a grammar, by the name of its first rule. Raises InvalidGuide when it is
    neither."""
    if _has_ebnf_root(source):
        return "EBNF"
    if _has_lark_start(source):
        return "Lark"
    raise InvalidGuide(
        "the grammar is neither EBNF (a rule `root ::= …`) nor Lark (a rule `start: …`)",
        param="grammar",
    )


def _has_ebnf_root(source: str) -> bool:
    """Whether a line begins with `root`, perhaps with options behind it, and then `::=`."""
    *heads, _ = source.split("::=")
    for i, head in enumerate(heads):
        head = head.rstrip()
        if head.endswith("]"):
            head = head[: max(0, head.rfind("["))].rstrip()
        _, new_line, indent = head.removesuffix("root").rpartition("\n")
        if head.endswith("root") and not indent.strip() and (new_line or i == 0):
            return True
    return False


def _has_lark_start(source: str) -> bool:
    """Whether a line begins with `start`, perhaps with ? and ! in front, perhaps with options and a
    priority behind it, and then `:`."""
    at = 0
    for line in source.split("\n"):
        head = line.lstrip().lstrip("?!")
        if head.startswith("start") and _names_lark_rule(
            source, at + len(line) - len(head) + len("start")
        ):
            return True
        at += len(line) + 1
    return False


def _names_lark_rule(source: str, at: int) -> bool:
    """Whether the rest of a rule's head follows: `[options]` and `.priority`, each optional, and a
    colon."""
    at = behind_space(source, at)
    if source.startswith("[", at):
        line_end = source.find("\n", at)
        at = source.find("]", at, len(source) if line_end < 0 else line_end) + 1
        if not at:
            return False
    if source.startswith(".", at):
        at += 2 if source.startswith("-", at + 1) else 1
        while source[at : at + 1].isdecimal():
            at += 1
    at = behind_space(source, at)
    return source.startswith(":", at) and not source.startswith("::", at)


def behind_space(source: str, at: int) -> int:
    """The position behind the whitespace at a position."""
    while source[at : at + 1].isspace():
        at += 1
    return at


def without_comments(source: str) -> str:
    """An EBNF grammar without its comments; line ends stay."""
    return "".join(text for sign, text in ebnf_parts(source) if sign != "#")


def with_least_counts(source: str) -> str:
    """An EBNF grammar with {0,n} for {,n}, a form of GBNF. Raises InvalidGuide for a number that
    libraries would read as a smaller one."""
    return "".join(text if sign else _with_least(text) for sign, text in ebnf_parts(source))


def _with_least(text: str) -> str:
    first, *counts = text.split("{")
    for count in counts:
        for number in map(str.strip, count.partition("}")[0].split(",")):
            if number.isdecimal() and len(number.lstrip("0")) > _MOST_DIGITS:
                raise InvalidGuide(
                    f"a repetition in the grammar has a bound of more than {_MOST_DIGITS} digits; "
                    "leave the upper bound out, as in {0,}",
                    param="grammar",
                )
    return first + "".join("{0"[: 2 if one.lstrip()[:1] == "," else 1] + one for one in counts)


def with_any_characters(source: str) -> str:
    """An EBNF grammar with a class of all characters for each `.`, a form of GBNF."""
    return "".join(text if sign else _with_any(text) for sign, text in ebnf_parts(source))


def _with_any(text: str) -> str:
    """A text with classes of all characters for its points, except points within names."""
    if "." not in text:
        return text
    parts = ("".join(run) for _, run in groupby(text, _is_of_name))
    return "".join(part if part.strip(".") else _ANY_CHARACTER * len(part) for part in parts)


def _is_of_name(char: str) -> bool:
    return char.isalnum() or char in "_-."


def with_empty_choices(source: str) -> str:
    """An EBNF grammar with "" for empty alternatives, a form of GBNF. An empty rule stays empty."""
    written: list[str] = []
    choices = _Choices(written)
    for sign, text in ebnf_parts(source):
        if sign:
            written.append(text)
            choices.is_open &= sign == "#"
            continue
        *heads, last = text.split("::=")
        for head in heads:
            name = start_of_name(head)
            choices.add(head[:name])
            choices.end_rule()
            written += [head[name:], "::="]
            choices.begin("::=")
        choices.add(last)
    choices.end_rule()
    return "".join(written)


def start_of_name(head: str) -> int:
    """The position where the name begins with which a text ends."""
    at = len(head.rstrip())
    while at and _is_of_name(head[at - 1]):
        at -= 1
    return at


class _Choices:
    """The alternatives of an EBNF grammar while they are written. is_open: nothing was written
    since the last one began."""

    def __init__(self, written: list[str]) -> None:
        self._written = written
        self._place = 0
        self._sign = ""
        self.is_open = False

    def begin(self, sign: str) -> None:
        """Write a sign, and reserve a place for "" behind it."""
        self._written.append("")
        self._place = len(self._written) - 1
        self._sign = sign
        self.is_open = True

    def end_rule(self) -> None:
        if self.is_open and self._sign == "|":
            self._written[self._place] = ' ""'
        self.is_open = False

    def add(self, text: str) -> None:
        """Write text that has no literals."""
        start = 0
        for at, char in enumerate(text):
            if char in "|)" and self.is_open:
                self._written[self._place] = ' ""'
            if char in "|(":
                self._written.append(text[start : at + 1])
                self.begin(char)
                start = at + 1
            elif not char.isspace():
                self.is_open = False
        self._written.append(text[start:])


def has_lookahead(source: str) -> bool:
    """Whether an EBNF grammar has a lookahead, (= …)."""
    bare = "".join(" " if sign else text for sign, text in ebnf_parts(source))
    return any(part.lstrip().startswith("=") for part in bare.split("(")[1:])


def ebnf_parts(source: str) -> Iterator[tuple[str, str]]:
    """The pieces of a grammar: ('"', a literal), ("[", a class of characters), ("#", a comment) and
    ("", other text)."""
    ends = dict(_ENDS)
    done = at = 0
    while at < len(source):
        sign = source[at]
        end = None
        if sign == "#":
            line_end = source.find("\n", at)
            end = len(source) if line_end < 0 else line_end
        elif sign in ends:
            end = behind_mark(source, at + 1, ends[sign])
            if end is None:  # nor does any later one end
                del ends[sign]
        if end is None:
            at += 1
            continue
        yield "", source[done:at]
        yield sign, source[at:end]
        done = at = end
    yield "", source[done:]


def behind_token(source: str, at: int) -> int:
    """The position behind a token's name in Lark, such as `</s>`, that begins there; behind its `<`
    where no `>` is near."""
    return 1 + max(at, source.find(">", at, at + _LONGEST_TOKEN))


def behind_mark(source: str, at: int, mark: str) -> int | None:
    """The position behind the next `mark` without a backslash in front; None where there is
    none."""
    while (end := source.find(mark, at)) >= 0:
        text = source[at:end]
        if (len(text) - len(text.rstrip("\\"))) % 2 == 0:
            return end + 1
        at = end + 1
    return None
