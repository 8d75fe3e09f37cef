"""Owns the meaning of a parsed regular expression for a whole text.

`whole` turns "matches somewhere" into "matches the whole text": anchors are removed, and any text
is added at edges that had none; lookaheads and lookbehinds are replaced by the texts that they
allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specguide.guided.budget import kept
from specguide.guided.regex.both import in_some_dialect, together
from specguide.guided.regex.edges import passed
from specguide.guided.regex.joined import either_of, join, without_both
from specguide.guided.regex.looks import (
    has_anchor,
    has_look,
    is_plain,
    one_sided,
    stays_inside,
    written_out,
)
from specguide.guided.regex.parse import parse
from specguide.guided.regex.settled import ALONE, settled
from specguide.guided.regex.tree import (
    ANY_TEXT,
    EMPTY,
    Anchor,
    Both,
    Chars,
    Concat,
    Either,
    Look,
    Regex,
    Repeat,
    UnsupportedRegex,
    least_length,
    lengths,
)
from specguide.guided.regex.writer import is_exact

_ANCHOR_INSIDE = (
    "an anchor inside a regular expression, ^ or $ elsewhere than at its edges, cannot be enforced"
)
_LOOK_REPEATED = "a lookahead or lookbehind inside a repetition cannot be enforced"


def whole(node: Regex, *, search: bool) -> Regex:
    """A tree without anchors that matches the whole texts that `node` matches.

    search: `node` may match anywhere in the text, as JSON Schema's `pattern` does; else it must
            match all of it.
    Raises UnsupportedRegex where the expression has an anchor inside, or a lookahead where it
    cannot be enforced.
    """
    alternatives = node.items if isinstance(node, Either) else (node,)
    branches = [branch for item in alternatives for branch in _whole_branches(item, search)]
    return branches[0] if len(branches) == 1 else either_of(branches)


@kept
def searched(pattern: str) -> Regex:
    """A tree without anchors of the whole texts in which a pattern matches somewhere. Raises
    RegexError."""
    return whole(parse(pattern), search=True)


def _whole_branches(node: Regex, search: bool) -> Iterator[Regex]:
    if has_look(node):
        node = settled(node) if search else settled(node, ALONE, ALONE)
        node = one_sided(written_out(node), at_start=not search or _leading(node)[0])
    started, looks, rest = _leading(node)
    if looks and (started or not search):
        anchored = Concat((Anchor(True), rest)) if started else rest
        yield _looked_at(whole(anchored, search=search), looks)
        return
    for started, after_start in _split(node, at_start=True):
        for ended, middle in _split(after_start, at_start=False):
            before = EMPTY if started or not search else ANY_TEXT
            after = EMPTY if ended or not search else ANY_TEXT
            if has_look(middle):
                before, middle = EMPTY, _without_lookbehinds(before, middle)
            yield join(before, _without_looks(middle, after))


def _without_lookbehinds(before: Regex, node: Regex) -> Regex:
    """A tree without lookbehinds of what `node` matches behind `before`. Raises
    UnsupportedRegex."""
    match node:
        case Look(behind=True):
            plain = passed(before, node) if least_length(before) > 0 else None
            if plain is not None:
                return plain
            if has_look(before) and not stays_inside(before):
                return _behind_lookahead(before, node)
            return _looked_at(_without_looks(before, EMPTY), [node])
        case Concat(items):
            apart = list[Regex]()  # items without lookbehinds
            for item in items:
                if has_look(item, behind=True):
                    before = _without_lookbehinds(join(before, *apart), item)
                    apart.clear()
                else:
                    apart.append(_without_lookbehinds(EMPTY, item))
            return join(before, *apart)
        case Either(items) if has_look(node, behind=True):
            return either_of(_without_lookbehinds(before, item) for item in items)
        case Either(items):
            node = Either(tuple(_without_lookbehinds(EMPTY, item) for item in items))
        case Repeat(item, 0, 1) if has_look(node, behind=True):
            return either_of((before, _without_lookbehinds(before, item)))
        case Repeat(item, least, most) if has_look(node) and stays_inside(item):
            once = _without_looks(_without_lookbehinds(EMPTY, item), EMPTY)
            return join(before, Repeat(without_both((once,))[0], least, most))
    return join(before, node)


def _behind_lookahead(before: Regex, look: Look) -> Regex:
    """The texts of `before` that a lookbehind allows. Where the end of `before` may be empty, its
    lookaheads may look beyond it: lookarounds at one position may be in any order. Raises
    UnsupportedRegex."""
    *items, last = before.items if isinstance(before, Concat) else (before,)
    match last:
        case Look():
            return join(_without_lookbehinds(join(*items), look), last)
        case Either(options):
            return either_of(_without_lookbehinds(join(*items, one), look) for one in options)
        case Repeat(item, 0, most):
            some = Repeat(item, 1, most)
            return either_of(
                _without_lookbehinds(join(*items, *end), look) for end in ((), (some,))
            )
    raise UnsupportedRegex("a lookbehind behind a lookahead cannot be enforced")


def _without_looks(node: Regex, after: Regex) -> Regex:
    """A tree without lookaheads of `node` followed by `after`, the tree of everything behind it, on
    which lookaheads in `node` depend. Raises UnsupportedRegex."""
    if not has_look(node):
        return join(node, after)
    match node:
        case Look(behind=False):
            return _looked_at(after, [node])
        case Concat(items):
            for item in reversed(items):
                after = _without_looks(item, after)
            return after
        case Either(items):
            return either_of(_without_looks(item, after) for item in items)
        case Repeat(item, 0, 1):
            return either_of((after, _without_looks(item, after)))
        case Repeat(Concat((*looks, Chars() as char)), least, None) if after == EMPTY:
            return _looked_at_each(Repeat(char, least, None), looks)
        case Repeat(Concat((Chars() as char, *looks)), least, None):
            return _looked_at_behind_each(Repeat(char, least, None), looks, after)
    raise UnsupportedRegex(_LOOK_REPEATED)


def _looked_at_each(chars: Repeat, looks: list[Regex]) -> Regex:
    """The texts of some characters that negative lookaheads allow at each of them."""
    somewhere = []
    for look, least in map(_looked_for, looks):
        if least == 0:
            raise UnsupportedRegex(_LOOK_REPEATED)
        somewhere.append(replace(look, node=Concat((ANY_TEXT, look.node))))
    return _looked_at(chars, somewhere)


def _looked_at_behind_each(chars: Repeat, looks: list[Regex], after: Regex) -> Regex:
    """The texts of some characters and `after` that negative lookaheads allow behind each of these
    characters. Raises UnsupportedRegex where `after` may have several lengths, or is longer than
    what a lookahead looks for, which then may begin behind the last of the characters."""
    shortest, longest = lengths(after)
    behind_some = []
    for look, least in map(_looked_for, looks):
        if not shortest == longest <= least:
            raise UnsupportedRegex(_LOOK_REPEATED)
        some = Repeat(chars.item, 1, None)
        behind_some.append(replace(look, node=Concat((some, look.node))))
    return _looked_at(join(chars, after), behind_some)


def _looked_for(look: Regex) -> tuple[Look, float]:
    """A negative lookahead, and the least length of what it looks for. Raises UnsupportedRegex for
    anything else, and where that length is not known."""
    if not isinstance(look, Look) or not look.negative or look.behind:
        raise UnsupportedRegex(_LOOK_REPEATED)
    ahead = whole(Concat((Anchor(True), look.node)), search=True)
    if isinstance(ahead, Both):
        raise UnsupportedRegex(_LOOK_REPEATED)
    return look, least_length(ahead)


def _leading(node: Regex) -> tuple[bool, list[Look], Regex]:
    """Whether it begins with an anchor, the lookaheads right behind that, and the rest."""
    started, looks = False, []
    left: list[Regex] = [node]  # a stack, the first item last
    while left:
        first = left[-1]
        if isinstance(first, Anchor) and first.at_start:
            started = True
        elif isinstance(first, Look) and not first.behind:
            looks.append(first)
        elif not isinstance(first, Concat):
            break
        left.pop()
        if isinstance(first, Concat):
            left += reversed(first.items)
    return started, looks, left[0] if len(left) == 1 else Concat(tuple(reversed(left)))


def _looked_at(node: Regex, looks: list[Look]) -> Regex:
    """The texts of a tree without anchors that all the lookaheads at its start, or lookbehinds at
    its end, allow."""
    also, but = list[Regex](), list[Regex]()
    for look in looks:
        plain = passed(node, look)
        if plain is not None:
            node = plain
            continue
        seen = (look.node, Anchor(False)) if look.behind else (Anchor(True), look.node)
        (but if look.negative else also).append(whole(Concat(seen), search=True))
    if not also and not but:
        return node
    agreed = all(map(is_exact, (node, *also, *but)))
    found = together([node, *also], but, is_exact=agreed)
    if agreed or isinstance(found, Both):
        return found
    return Either((found, in_some_dialect([node, *also], but)))


def _split(node: Regex, at_start: bool) -> list[tuple[bool, Regex]]:
    """`node` as alternatives without the anchor of one edge: (whether it had one, the rest)."""
    if not has_anchor(node, at_start):
        return [(False, node)]
    if isinstance(node, Anchor):
        return [(True, EMPTY)]
    if isinstance(node, Either):
        return [part for item in node.items for part in _split(item, at_start)]
    if isinstance(node, Repeat) and (node.least, node.most) == (0, 1):
        return [(False, EMPTY), *_split(node.item, at_start)]
    if isinstance(node, Repeat) and not at_start and node.least <= 1 and node.most is None:
        return _split_repeated(node)
    if not isinstance(node, Concat):
        raise UnsupportedRegex("a repeated group that holds an anchor cannot be enforced")
    return _split_in_turn(node, at_start)


def _split_in_turn(node: Concat, at_start: bool) -> list[tuple[bool, Regex]]:
    """`_split` of items one after the other. There is no text beyond an anchor, so the items there
    must match the empty text."""
    items = node.items[::-1] if at_start else node.items
    first = next(i for i, item in enumerate(items) if has_anchor(item, at_start))
    inside = items[:first]
    parts: list[tuple[bool, Regex]] = [(False, Concat(inside[::-1] if at_start else inside))]
    for item in items[first:]:
        behind, parts = parts, []
        for found, outer in _split(item, at_start):
            for also_found, inner in behind:
                rest = _at_edge(outer, at_start) if also_found else outer
                if rest is not None:
                    pair = (rest, inner) if at_start else (inner, rest)
                    parts.append((found or also_found, join(*pair)))
        if not parts:
            raise UnsupportedRegex(_ANCHOR_INSIDE)
    return parts


def _at_edge(node: Regex, at_start: bool) -> Regex | None:
    """What is left of an item beyond an anchor, where there is no text: its lookarounds into the
    text. None where it certainly does not match the empty text. Raises UnsupportedRegex where that
    is not certain."""
    if isinstance(node, Look):
        return _looked_at(EMPTY, [node]) if node.behind == at_start else node
    if is_plain(node):
        return EMPTY if least_length(node) == 0 else None
    raise UnsupportedRegex(_ANCHOR_INSIDE)


def _split_repeated(node: Repeat) -> list[tuple[bool, Regex]]:
    """`_split` at the end: only the last time can both match some text and reach the anchor."""
    parts = _split(node.item, at_start=False)
    others = Either(tuple(inner for ended, inner in parts if not ended))
    last = Either(tuple(inner for ended, inner in parts if ended))
    before = [(False, Repeat(others, node.least, None))] if others.items or not node.least else []
    return [*before, (True, join(Repeat(others, 0, None), last))]
