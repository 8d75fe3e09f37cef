"""Regular expressions: one meaning, whatever engine runs them, and refusals by name."""

from __future__ import annotations

import json
import re
from itertools import chain, product
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from grammar_backends import WHOLE
from hypothesis import given, settings
from hypothesis import strategies as st
from one_compiler import compiler_of

from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.regex.charset import EVERYTHING
from specguide.guided.regex.classes import read_escape
from specguide.guided.regex.parse import parse
from specguide.guided.regex.reader import Reader
from specguide.guided.regex.tree import NOTHING, UnsupportedRegex
from specguide.guided.regex.whole import whole
from specguide.guided.regex.writer import is_exact, restrict, write
from specguide.guided.schema.formats import FORMAT_LENGTHS, FORMATS, PYDANTIC_FORMATS

TEXTS = ["".join(text) for length in range(5) for text in product("ab1", repeat=length)]
compiler = compiler_of(VOCABULARY)


def rewritten(pattern: str, *, search: bool = True) -> re.Pattern[str]:
    node = restrict(whole(parse(pattern), search=search), EVERYTHING)
    return re.compile("[^\\x00-\\U0010FFFF]" if node == NOTHING else write(node))


def patterns() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["a", "b", "1", ".", "[ab]", "[^a]", r"\d", r"\w", r"\D", "^", "$"])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        repeated = st.builds(
            "(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])
        )
        return st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("({}|{})".format, inner, inner),
            st.builds("({}{})".format, st.sampled_from(["?=", "?!"]), inner),
            repeated,
        )

    return st.recursive(atoms, grown, max_leaves=6)


@settings(max_examples=300)
@given(pattern=patterns(), search=st.booleans())
def test_the_rewritten_expression_matches_the_same_texts(pattern: str, search: bool) -> None:
    try:
        ours = rewritten(pattern, search=search)
    except UnsupportedRegex:
        return
    engine = re.compile(pattern)
    for text in TEXTS:
        expected = engine.search(text) if search else engine.fullmatch(text)
        assert bool(ours.fullmatch(text)) == bool(expected), text


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)^Ab|k$",
        "(?i:a)B",
        "(?i)[^a]k?",
        "(?i)[A-C]+",
        r"(?i)\x41\w",
        "(?i)(?!ab)..",
        "a|(?i:É)",
    ],
)
def test_where_case_is_ignored_the_same_texts_match(pattern: str) -> None:
    """Of the letters that only some engines take for one of ASCII, as the sign of kelvin, none is
    taken, and none is taken for another letter than it."""
    ours, engine = rewritten(pattern, search=False), re.compile(pattern)
    for text in map("".join, product("aAbBkKéÉ\u212a", repeat=2)):
        expected = bool(engine.fullmatch(text))
        assert bool(ours.fullmatch(text)) == expected or (expected and not text.isascii()), text
    for char in "aAbBkKéÉ":
        assert bool(ours.fullmatch(char)) == bool(engine.fullmatch(char)), char


def test_case_is_ignored_to_the_end_of_the_group() -> None:
    ours = rewritten("((?i)a|b)c(?i:d)e", search=False)
    assert all(map(ours.fullmatch, ("acde", "AcDe", "Bcde")))
    assert not any(map(ours.fullmatch, ("aCde", "acdE")))


@pytest.mark.parametrize(
    "pattern",
    [
        "^[ab]*(?<!b)$",
        "(?<=a)b",
        "(?<!a)b|^1",
        "(?<!^)b$",
        "^(?!1)[ab1]{1,3}(?<!1)$",
        "^((?!b)[ab]{1,2}(?<!b)1)+$",
        "^((?!b)[ab]+1)+$",
        "(a|b(?<!ab))1",
        "^[ab]?(?<=b|^)1(?!a)",
        "^(?:(?!ab)[ab]{2})*1?(?<!a1)$",
        "^a(?!b1)(?<!ba).",
        "[ab](?:.b|(?=b)(?=b1))(?<=a)",
        *("^(?:(?!ab)[ab]{1,2}){2,4}$", "(?:(?<!a)[ab](?!1)){2,3}", "^(?:(?<=a)b|a(?=b)|1){0,4}$"),
        *("^(?:b(?=a))*$", "^(?:b(?!a))*1$", "^(?:a(?=b)b)*1?$", "(?:a(?!b)1?(?<!b))+$"),
        *("^(?:(?<!b)a1)+$", "(?<=1)^a|^(?<!1)b$(?!a)"),
        *("^(?:b(?!ba))*$", "^(1|1([1ab](?!ab))*[1a])$", "^b([ab](?!(a|bb)$))+.$"),
        *(r"\A[^b]+\Z", r"\Aab|b\Z"),
    ],
)
def test_what_was_before_is_looked_at_and_in_repetitions_too(pattern: str) -> None:
    ours, engine = rewritten(pattern), re.compile(pattern.replace("(?<=b|^)", "(?:(?<=b)|^)"))
    for text in TEXTS:
        assert bool(ours.fullmatch(text)) == bool(engine.search(text)), text


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=^[ab]{2}$)(?=.*b).*", "(?!^b)(?!a$)[ab]+", "1(?!^a)b", "[ab](?=^|1)", "a?(?!^b)b"),
        *("(?!.*bb).*^[ab]+$", "(?=^a|b1$).", "[ab]+$b*(?<!ab)", "1?(?=(?=^a)|b)[ab]", "(?!^)b"),
        *("a(?=(?<!^a)b)", "a?(?!(?<=b)1|a)[1b]", "(?<!1$)b?$", "b(?<=b(?=1))(?=.).", "b*(?<=^)^a"),
        *("a(?!\\b)1?", "(?!1\\b)[1ab]", "^((?!(?<=b)a).)*$", "^((?!\\ba).)*$", "(?<!a)^1|a$(?!b)"),
    ],
)
def test_a_lookahead_may_ask_what_is_before_it_and_a_lookbehind_what_is_behind(
    pattern: str,
) -> None:
    for search in (True, False):
        ours, engine = rewritten(pattern, search=search), re.compile(pattern)
        for text in TEXTS:
            expected = engine.search(text) if search else engine.fullmatch(text)
            assert bool(ours.fullmatch(text)) == bool(expected), text


def test_a_point_may_be_any_character() -> None:
    ours = rewritten("(?s:.)(?i)a.(?is).", search=False)
    assert ours.fullmatch("\nAb\n") and not ours.fullmatch("aa\na")
    assert rewritten("^(?s).+$").fullmatch("\r\n")


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\bab\b", r"^a\b-b$", r"\ba", r"a\b", r"^\b(a|b)\b.*", r"^.*\b$", r"^a?\b-?$"),
        *(r"^[a-z]+\b", r"\b(ab|a)\b|\bb\b", r"^(?!.*\bab\b)", r"^(?=.*\ba\b)[ab-]*$"),
        *(r"^\b[ab-]{1,3}\b$", r"\b(-?a){1,2}\b", r"\b(a?-|b){2,}\b"),
        *(r"\ba\b.*\bb\b", r"^\b[ab]+\b-\b[ab]+\b$", r"(a\b|-)b?\ba"),
        *(r"^(a?-?\b){4}$", r"(?:\b[ab]+\b-?){2,3}", r"^(?:(?:b|\ba)-?\b){1,4}-$"),
        *(r"^\ba\w*\b(?:-+\b[ab]\w*\b)*$", r"^(?:\b[ab]+\b-*){1,4}$", r"(a\b)+-", r"^\b\w+\b\s*$"),
        *(r"^\b[ab-]*\b$", r"^\b(ab|b)?\b-?$", r"^a*\b[b-]*\b-?$"),
    ],
)
def test_word_boundaries_are_where_all_engines_see_them(pattern: str) -> None:
    ours = rewritten(pattern)
    of_ascii, of_unicode = re.compile(pattern, re.ASCII), re.compile(pattern)
    for text in map("".join, chain(*(product("ab-é", repeat=num) for num in range(5)))):
        is_match = bool(of_ascii.search(text) and of_unicode.search(text))
        assert bool(ours.fullmatch(text)) == is_match, text


@pytest.mark.parametrize("name", WHOLE)
def test_backends_take_what_the_expression_matches(name, new_compiler):
    compiler = new_compiler(VOCABULARY, backend=name)
    for pattern in (
        "^a+b?$",
        "a|b1",
        "(a|b)*1",
        "(?:a{2,}b?)+",
        "[^a]{2}",
        r"\d\w*",
        "(?:(?:a|b){1,2}1)?b",
        "a.b",
        "a*?b",
        "^$",
        "a|",
        r"[\w-]+",
        "(?i)A|[^B]1",
        "(?<x>a)b",
        "x*a",
    ):
        grammar = compiler.compile(Guide(regex=pattern))
        for text in (*TEXTS, "é", "a\nb", "-a"):
            assert takes(grammar, text) == bool(
                re.fullmatch(pattern.replace("?<x>", ""), text, re.ASCII)
            ), (pattern, text)


PROPERTIES = (
    (r"\p{L}", "aÉß語кאहअ", "1_ -\u0301😀"),
    (r"\p{General_Category=Uppercase_Letter}", "AÉК", "aékß語"),
    (r"\P{Lu}", "aé1 語😀", "AÉК"),
    (r"[^\p{L}\p{N}]", " -_😀", "a語1٣"),
    (r"\p{Sc}", "$€₹₿", "sE"),
    (r"\p{Nd}", "19٣", "aⅧ²"),
    (r"\p{Script=Greek}", "αΩΆ", "aк"),
    (r"\p{sc=Hani}", "語漢", "あa"),
    (r"\p{Script=Devanagari}", "हि्", "ক।"),
    (r"\p{Extended_Pictographic}", "😀❤©", "1#🇩🏽"),
    (r"\p{Emoji}", "😀1#🇩🏽", "a-"),
    (r"\p{Emoji_Component}", "1#🇩🏽\u200d\ufe0f", "😀"),
    (r"\p{RI}{2}|\p{Regional_Indicator}", "🇩", "😀D"),
    (r"\p{ExtPict}", "😀❤", "1🇩"),
    (r"\p{AHex}", "09afAF", "gG٣"),
    (r"\p{White_Space}", " \t\u3000\x85", "a\ufeff"),
    (r"(?i)\p{Lu}", "aÀк", "語1"),
)


@pytest.mark.parametrize(("pattern", "inside", "outside"), PROPERTIES)
def test_unicode_properties_hold_what_is_theirs(pattern: str, inside: str, outside: str) -> None:
    matcher = rewritten(pattern, search=False)
    assert all(map(matcher.fullmatch, inside))
    assert not any(map(matcher.fullmatch, outside))


def test_what_versions_of_unicode_differ_on_is_in_no_property() -> None:
    newer = "\U0001fac8\u0870\u1c89\u20c1\u0295"
    for letter in "LMNPSZC":
        for pattern in (rf"\p{{{letter}}}", rf"\P{{{letter}}}"):
            assert not any(
                map(rewritten(pattern, search=False).fullmatch, newer.replace("\u0295", ""))
            )
    assert not rewritten(r"\p{Ll}|\P{Ll}", search=False).fullmatch("\u0295")


def test_patterns_of_emoji_and_names_are_enforced(compiler: GrammarCompiler) -> None:
    emoji = compiler.compile(
        Guide(
            json_schema={
                "type": "string",
                "pattern": r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$",
            }
        )
    )
    assert takes(emoji, '"👩🏽\u200d🚀"') and not takes(emoji, '"a"')
    name = compiler.compile(
        Guide(regex=r"\p{Lu}[\p{L}\p{M}'-]{1,40}( \p{Lu}[\p{L}\p{M}'-]{1,40})*")
    )
    assert takes(name, "Łukasz Müller-O'Brien") and not takes(name, "łukasz")


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (
            r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d)[A-Za-z\d]{8,12}$",
            ["Abcdef1h", "1234567aZ"],
            ["Abcdefgh", "Abc12", "abcdefg1", "Abcdef1h!"],
        ),
        (
            r"^(?=.*[A-Z])(?=.*[!@#$])(?=.*\d)(?!.*password).{8,64}$",
            ["ABC1defgh!"],
            ["ABC1defghi", "Aa1password!"],
        ),
        (
            r"^\b[a-z0-9-]{15,300}\b$",
            ["a" * 15, "a" + "-" * 298 + "a"],
            ["a" * 14, "-" + "a" * 20, "a" * 20 + "-", "a" * 301],
        ),
        (
            r"^[a-z](?![a-z0-9-]*-\d+$)[a-z0-9-]{2,23}$",
            ["abc", "a-b", "a" + "-" * 23],
            ["ab", "1bc", "ab-1", "a" * 25],
        ),
        (
            r"^a[b-]{2}(?=[a-z-]{3,40}$)(?!.*--c)[a-z]+(-+[a-z]+)*$",
            ["abbabc", "a--" + "b" * 40, "abba--b"],
            ["abbab", "a--" + "b" * 41, "abba--c"],
        ),
        (r"^\b[ -~]{3,50}@[\w.-]{3,90}\b$", ["a b@c.d"], ["a b@c.d.", " a@c.d", "a b@cd"]),
    ],
)
def test_lookaheads_are_enforced_where_one_expression_would_be_too_long(
    compiler, pattern, inside, outside
):
    schema = {"type": "string", "pattern": pattern}
    for guide, mark in ((Guide(regex=pattern), ""), (Guide(json_schema=schema), '"')):
        compiled = compiler.compile(guide)
        taken = [text for text in inside + outside if takes(compiled, f"{mark}{text}{mark}")]
        assert taken == inside


def test_what_engines_read_differently_is_read_narrowly() -> None:
    for pattern, lost, kept in (
        (r"^\d$", "٣", "3"),
        (r"^\w$", "é", "e"),
        (r"^\D$", "٣", "e"),
        (r"^\s$", "\x1c", " "),
        (r"^\S$", "\ufeff", "é"),
        ("^.$", "\r", "é"),
        (r"^[^\d]$", "٣", "é"),
        (r"^\D$", "𝟗", "語"),
        (r"^\W$", "é", "。"),
        (r"^[^\w\s]$", "ª", "😀"),
    ):
        assert rewritten(pattern).fullmatch(kept) and not rewritten(pattern).fullmatch(lost), (
            pattern
        )
    assert rewritten("^[^a]$").fullmatch("\n")
    assert is_exact(parse("[a-z]+")) and not is_exact(parse(r"\w+"))


def test_no_digit_and_no_letter_of_any_script_passes_for_none() -> None:
    for pattern in (r"\d", r"\w"):
        inner = read_escape(Reader(pattern[1].upper()), in_class=False).inner
        chars = "".join(chr(code) for low, high in inner for code in range(low, high + 1))
        assert len(chars) > 1000 and re.search(pattern, chars) is None


def test_places_of_a_character_share_it() -> None:
    """Else 8,000 words are some 250,000 objects, for whose garbage the interpreter stands still."""
    words = ["".join(word) for word in product("abcdefg", repeat=4)]
    tree = restrict(whole(parse("|".join(words)), search=False), EVERYTHING)
    places = [char for word in tree.items for char in word.items]
    assert len(places) == 4 * len(words) and len(set(map(id, places))) == 7
    assert write(tree) == "|".join(words)


def test_escapes() -> None:
    for pattern, text in (
        (r"^\x41$", "A"),
        (r"^\u0041$", "A"),
        (r"^\u{1F600}$", "😀"),
        (r"^\uD83D\uDE00$", "😀"),
        (r"^\cJ$", "\n"),
        (r"^[\b]$", "\b"),
        (r"^\t\n\v\f\r\0$", "\t\n\v\f\r\0"),
        (r"^\/\-\.$", "/-."),
        (r"^{a}$", "{a}"),
        (r"^[a\]^-]+$", "a]^-"),
        (r"^[+--]+$", "+,-"),
        (r"^[[:;:]+$", "[:;"),
        (r"^[&&a]+$", "a&"),
    ):
        assert rewritten(pattern).fullmatch(text), pattern


def test_halves_of_two_pairs_make_no_character() -> None:
    pattern = r"^[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDBFF-\uDC00\uDFFF\t]+$"
    assert rewritten(pattern).fullmatch("a\t語") and not rewritten(pattern).fullmatch("a\n")
    assert rewritten(r"^[\uD800\u0041]$").fullmatch("A")


def test_strings_cannot_end_early_or_hold_control_characters(compiler: GrammarCompiler) -> None:
    for pattern, taken, refused in (
        ("^[^a]*$", [r'"b\"\\"', '"é"', r'"\n"'], ['"a"', '"b"b"', '"\n"', '"\x01"', r'"\u0061"']),
        (r"^[^\\]*$", [r'"\""'], [r'"\\"']),
        ('^[^"]*$', [r'"\\"'], [r'"\""']),
        ("^.{2}$", [r'"\"\\"', '"éé"'], [r'"\n"']),
    ):
        for schema in (
            {"type": "string", "pattern": pattern},
            {"pattern": pattern, "maxLength": 5},
        ):
            grammar = compiler.compile(Guide(json_schema=schema))
            found = [text for text in taken + refused if takes(grammar, text)]
            assert found == taken, pattern


def test_formats(data_dir: Any) -> None:
    expressions = {name: rewritten(f"^(?:{pattern})$") for name, pattern in FORMATS.items()}
    taken, seen = set(), set()
    for line in (data_dir / "json_schema_test_suite.jsonl").read_text().splitlines():
        test = json.loads(line)
        name = test["schema"].get("format") if isinstance(test["schema"], dict) else None
        if (
            test["suite"] == "optional/format"
            and name in expressions
            and isinstance(test["data"], str)
        ):
            seen.add(name)
            is_short = len(test["data"]) <= FORMAT_LENGTHS.get(name, len(test["data"]))
            if is_short and expressions[name].fullmatch(test["data"]):
                assert test["valid"], (name, test["data"])
                taken.add(name)
    assert seen == FORMATS.keys() - PYDANTIC_FORMATS.keys() and taken == seen
