"""Owns the reading of guides' regular expressions: one dialect, into a tree whose meaning no
backend can change.

The dialect is the regular part of what ECMA-262 and Python's `re` agree on: literals, classes,
groups, alternatives, repetitions, the anchors `^` and `$`, lookaheads and lookbehinds, and word
boundaries, which become lookarounds. Lazy repetitions describe the same strings as greedy ones.
Constructs that are not regular, or that engines read differently, are refused by name
(backreferences to many texts, flags except `i` and `s`).
"""

from __future__ import annotations

from specguide.guided.budget import spend
from specguide.guided.regex.backreferences import spelled_out
from specguide.guided.regex.cases import any_case
from specguide.guided.regex.charset import DOT, WORD
from specguide.guided.regex.classes import read_class, read_escape
from specguide.guided.regex.reader import Reader
from specguide.guided.regex.tree import (
    ANY_CHAR,
    EMPTY,
    MAX_CHARS,
    Anchor,
    Chars,
    Concat,
    Either,
    Group,
    Look,
    Reference,
    Regex,
    Repeat,
    UnsupportedRegex,
    character,
)

MAX_REPETITION = 100_000
MAX_NESTING = 100
_STEPS_A_CHARACTER = 8
_LONGEST_COUNT = 16
_OF_COUNTS = frozenset("0123456789,")
_FLAGS = frozenset("is")
_DIGITS = frozenset("0123456789")
_NUMBERS = frozenset("123456789")
_EDGES = frozenset("AZ")
_REFERENCES = ("(?P=", "\\k", *(f"\\{digit}" for digit in "123456789"))
_LAST_NUMBER = 99
_AMBIGUOUS = 0
_LOOKS = ("?=", "?!", "?<=", "?<!")
_GROUPS = {
    ">": "an atomic group",
    "(": "a conditional group",
    "#": "a comment",
}
_BOUNDS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _sides(*, is_word: bool) -> Regex:
    """A position behind a word character and before none; or the other way round."""
    word = Chars(WORD)
    ahead = Look(word, negative=is_word, behind=False)
    return Concat((Look(word, negative=not is_word, behind=True), ahead))


_WORD_EDGE = Either((_sides(is_word=True), _sides(is_word=False)))


def check_length(text: str) -> None:
    """Raises UnsupportedRegex for a text that is too long to be read. Quick."""
    if len(text) > MAX_CHARS:
        raise UnsupportedRegex(
            f"a regular expression of {len(text)} characters, more than {MAX_CHARS}, is too long"
        )


def parse(text: str) -> Regex:
    """The tree of a regular expression. Raises RegexError, or UnsupportedRegex naming the
    feature."""
    check_length(text)
    spend(_STEPS_A_CHARACTER * len(text))
    parser = _Parser(text)
    node = parser.alternatives(0)
    if not parser.at_end():
        raise parser.malformed("unmatched ')'")
    return spelled_out(node, parser.referred) if parser.keeps_groups else node


class _Parser(Reader):
    """referred:     numbers of the groups to which something refers
    keeps_groups: whether its trees have groups, since something may refer to them"""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.referred = set[int]()
        self._num_groups = 0
        self._closed = dict[str, int]()  # numbers of closed groups, by number and by name
        self.keeps_groups = any(sign in text for sign in _REFERENCES)

    def alternatives(self, depth: int) -> Regex:
        if depth > MAX_NESTING:
            raise self.unsupported(f"nesting deeper than {MAX_NESTING} groups")
        items = [self.sequence(depth)]
        while self.skip("|"):
            items.append(self.sequence(depth))
        return items[0] if len(items) == 1 else Either(tuple(items))

    def sequence(self, depth: int) -> Regex:
        items: list[Regex] = []
        while not self.at_end() and self.peek() not in "|)":
            item = self.repeated(self.atom(depth))
            # a repeated anchor changes nothing
            if not (isinstance(item, Anchor) and items and items[-1] == item):
                items.append(item)
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def repeated(self, item: Regex) -> Regex:
        bounds = self.bounds()
        if bounds is None:
            return item
        inside = item
        while isinstance(inside, Group):
            inside = inside.item
        if isinstance(inside, (Anchor, Look)) or inside is _WORD_EDGE:
            raise self.unsupported("a repeated anchor or lookahead")
        self.skip("?")
        if self.peek() == "+":
            raise self.unsupported("a possessive repetition")
        if self.bounds() is not None:
            raise self.malformed("two repetitions in a row")
        return Repeat(item, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        sign = self.peek()
        if sign in _BOUNDS:
            self.pos += 1
            return _BOUNDS[sign]
        count = self.count(self.pos) if sign == "{" else None
        if count is None:
            return None
        least, comma, most = count.partition(",")
        if not least:
            raise self.unsupported(
                "a repetition without a lower bound, which engines read differently,"
            )
        low = int(least)
        high = low if not comma else int(most) if most else None
        if max(low, high or 0) > MAX_REPETITION:
            raise self.unsupported(f"more than {MAX_REPETITION} repetitions")
        if high is not None and low > high:
            raise self.malformed("a repetition whose bounds are the wrong way round")
        self.pos += len(count) + 2
        return low, high

    def count(self, start: int) -> str | None:
        """The text inside braces that begin at `start`; None where they are no repetition and stand
        for themselves."""
        if self.text[start : start + 1] != "{":
            return None
        end = start + 1
        while self.text[end : end + 1] in _OF_COUNTS:
            end += 1
        count = self.text[start + 1 : end]
        least, _, most = count.partition(",")
        if self.text[end : end + 1] != "}" or not (least or most) or "," in most:
            return None
        if len(count) > _LONGEST_COUNT:
            raise self.unsupported(f"more than {MAX_REPETITION} repetitions")
        return count

    def atom(self, depth: int) -> Regex:
        char = self.take()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return Chars(read_class(self))
        if char == "\\" and self.skip("b"):
            return _WORD_EDGE
        if char == "\\" and self.peek() in _EDGES:
            return Anchor(self.take() == "A")
        if char == "\\" and self.skip("k<"):
            return self.reference(self.name(">"))
        if char == "\\" and self.peek() in _NUMBERS:
            return self.reference(self.number())
        if char == "\\":
            return self.either_case(Chars(read_escape(self, in_class=False)))
        if char == ".":
            return ANY_CHAR if "s" in self.flags else Chars(DOT)
        if char in "^$":
            return Anchor(char == "^")
        if char in "*+?":
            raise self.malformed(f"nothing before {char!r} to repeat")
        if char == "{" and not (self.count(self.pos - 1) or ",").startswith(","):
            raise self.malformed("nothing before '{' to repeat")
        return self.either_case(character(char))

    def either_case(self, item: Chars) -> Chars:
        """A character, with its other case where case is ignored."""
        return Chars(any_case(item.chars)) if self.ignores_case else item

    def group(self, depth: int) -> Regex:
        """The group whose `(` was read."""
        look = next(filter(self.skip, _LOOKS), None)
        if look is not None:
            return Look(self.inside(depth), negative="!" in look, behind="<" in look)
        if self.skip("?"):
            for sign, name in _GROUPS.items():
                if self.text.startswith(sign, self.pos):
                    raise self.unsupported(name)
            if self.skip("P="):
                return self.reference(self.name(")"))
            if self.skip("P<") or self.skip("<"):
                return self.captured(depth, self.name(">"))
            return self.inside(depth) if self.skip(":") else self.flagged(depth)
        return self.captured(depth, None)

    def captured(self, depth: int, name: str | None) -> Regex:
        """The group that has a number, and perhaps a name. All before its text was read."""
        self._num_groups += 1
        number = self._num_groups
        node = self.inside(depth)
        if number <= _LAST_NUMBER:
            self._closed[str(number)] = number
        if name is not None:
            self._closed[name] = _AMBIGUOUS if name in self._closed else number
        return Group(node, number) if self.keeps_groups else node

    def name(self, end: str) -> str:
        """A name; its end is read, too."""
        name = self.text[self.pos : max(self.text.find(end, self.pos), self.pos)]
        if not name.isidentifier():
            raise self.malformed("a group without a proper name")
        self.pos += len(name) + 1
        return name

    def number(self) -> str:
        """The digits that come next."""
        start = self.pos
        while not self.at_end() and self.peek() in _DIGITS:
            self.pos += 1
        return self.text[start : self.pos]

    def reference(self, group: str) -> Regex:
        """A backreference to a group by number or name. Raises UnsupportedRegex unless that is
        exactly one group, which is already closed."""
        number = self._closed.get(group, _AMBIGUOUS)
        if number == _AMBIGUOUS:
            raise self.unsupported(f"a backreference to {group!r}, which is no group before it,")
        self.referred.add(number)
        return Reference(number, self.ignores_case)

    def flagged(self, depth: int) -> Regex:
        """The group whose `(?` was read; flags come next."""
        outside = self.flags
        while self.peek() in _FLAGS:
            self.flags |= {self.take()}
        if self.peek() not in (":", ")"):
            raise self.unsupported("a flag other than i and s")
        if self.take() == ")":  # they apply up to the end of the group around them
            if self.bounds() is not None:
                raise self.malformed("a flag, which cannot be repeated,")
            return EMPTY
        node = self.inside(depth)
        self.flags = outside
        return node

    def inside(self, depth: int) -> Regex:
        """The content of a group; its `)` is read, too."""
        outside = self.flags
        node = self.alternatives(depth + 1)
        self.flags = outside
        if not self.skip(")"):
            raise self.malformed("missing ')'")
        return node
