"""Owns the rewriting of Lark that llguidance reads differently, or not at all: comments and blanks
on lines of their own between the alternatives of a rule, names of special tokens, and the strings
of Lark's library. Takes linear time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specguide.guided.notations.grammar_form import behind_mark, behind_token

_COMMENTS = ("//", "#")
_BLANKS = frozenset(" \t\r")
_IMPORT, _LIBRARY, _STRING = "%import", "common", "ESCAPED_STRING"
_STRING_ON_ONE_LINE = r'/"([^"\\\n]|\\[^\n])*"/'


def as_lark_reads(source: str) -> str:
    """A Lark grammar without its comments where some lines have nothing else, without blanks on
    empty lines, and with Lark's own definition of ESCAPED_STRING, which allows no line ends."""
    lines = source.split("\n")
    if any(line.isspace() or line.lstrip().startswith(_COMMENTS) for line in lines):
        lines = "".join(_without_comments(source)).split("\n")
    return "\n".join(_with_string(line) if _STRING in line else line for line in lines)


def with_token_ids(source: str, ids: Mapping[str, int]) -> str:
    """A Lark grammar with ids, such as `<[2]>`, in place of the names of special tokens, such as
    `</s>`. Names that are not in `ids` stay."""
    parts = []
    done = 0
    for begin, end in _named_tokens(source):
        token = ids.get(source[begin:end])
        if token is not None:
            parts += [source[done:begin], f"<[{token}]>"]
            done = end
    return "".join([*parts, source[done:]])


def named_token(source: str) -> str | None:
    """The first name of a special token in a Lark grammar; None where there is none."""
    begin, end = next(_named_tokens(source), (0, 0))
    return source[begin:end] or None


def _named_tokens(source: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each name of a special token."""
    at = 0 if "<" in source else len(source)
    while at < len(source):
        sign = source[at]
        if source.startswith(_COMMENTS, at):
            line_end = source.find("\n", at)
            at = len(source) if line_end < 0 else line_end
        elif sign in '"/':
            at = behind_mark(source, at + 1, sign) or len(source)
        elif sign == "<":
            begin, at = at, behind_token(source, at)
            if at > begin + 1 and source[begin + 1] != "[":
                yield begin, at
        else:
            at += 1


def _without_comments(source: str) -> Iterator[str]:
    done = at = 0
    while at < len(source):
        sign = source[at]
        if source.startswith(_COMMENTS, at):
            yield source[done:at]
            line_end = source.find("\n", at)
            at = done = len(source) if line_end < 0 else line_end
        elif sign == "\n":
            at += 1
            behind = _behind_blanks(source, at)
            if source.startswith(("\n", *_COMMENTS), behind):
                yield source[done:at]
                done = behind
            at = behind
        elif sign in '"/':
            at = behind_mark(source, at + 1, sign) or len(source)
        elif sign == "<":
            at = behind_token(source, at)
        else:
            at += 1
    yield source[done:]


def _behind_blanks(source: str, at: int) -> int:
    while source[at : at + 1] in _BLANKS:
        at += 1
    return at


def _with_string(line: str) -> str:
    """A line with the definition of ESCAPED_STRING in place of its import."""
    code = line.partition("//")[0].partition("#")[0]
    directive, _, imported = code.strip().partition(" ")
    library, dot, name = imported.partition(".")
    if directive != _IMPORT or not library.startswith(_LIBRARY):
        return line
    if dot:
        name, _, alias = name.partition("->")
        own = alias.strip() or _STRING
        return f"{own}: {_STRING_ON_ONE_LINE}" if name.strip() == _STRING else line
    names = [one.strip() for one in imported.partition("(")[2].partition(")")[0].split(",")]
    if _STRING not in names:
        return line
    others = [one for one in names if one != _STRING]
    rest = f"{_IMPORT} {_LIBRARY} ({', '.join(others)})\n" if others else ""
    return f"{rest}{_STRING}: {_STRING_ON_ONE_LINE}"
