"""EBNF grammars of users: what odd ones come to."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from byte_vocabulary import VOCABULARY, takes
from one_compiler import compiler_of

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.matcher import Matcher, allowed_tokens
from specguide.guided.wrappers.endings import EndingGrammar
from specguide.tokenizer.vocabulary import Vocabulary

FEW = Vocabulary((b"a", b"b", b"c", b"ab", b"ba", b"cc", b""), (6,))

compiler = compiler_of(VOCABULARY)


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("root ::= root", "root"),
        ("root ::= root{2,}", "root"),
        ('root ::= "" (root{0,3})', "root"),
        ("root ::= (root)+", "root"),
        ('root ::= "a" | b\nb ::= b{2} # again\n', "b"),
        ('root ::= "a" | c | b\nb ::= c{2}\nc ::= b', "b"),
        ('root ::= root{2}\nb[lazy] ::= "a"', "root"),
        ("root[capture] ::= root{2}", "root"),
    ],
)
def test_a_rule_that_is_itself_again_is_refused_by_name(
    compiler: GrammarCompiler, source: str, rule: str
) -> None:
    """xgrammar would end the process over most of them."""
    with pytest.raises(InvalidGuide, match=f"the rule {rule} of the grammar is nothing but itself"):
        compiler.compile(Guide(grammar=source))


@pytest.mark.parametrize(
    ("source", "rule"), [("start: start{2,2}", "root"), ('start: "a" | r\nr: r~2', "r")]
)
def test_a_rule_of_lark_that_is_itself_again_is_refused_by_xgrammar(source, rule, new_compiler):
    made = new_compiler(VOCABULARY, backend="xgrammar")
    with pytest.raises(InvalidGuide, match=f"the rule {rule} of the grammar is nothing but itself"):
        made.compile(Guide(grammar=source))


@pytest.mark.parametrize(
    ("source", "texts", "others"),
    [
        ("root ::= root*", [""], ["a"]),
        ('root ::= "a" | root{2}', ["a", "aa"], ["", "b"]),
        ('root ::= ("a" | root){2,}', ["aa", "aaa"], ["", "a"]),
        ('root ::= b{2} | "x"\nb ::= "[" root "]"', ["x", "[x][x]"], ["[x]", ""]),
    ],
)
def test_a_rule_may_hold_itself_beside_something_else(
    compiler: GrammarCompiler, source: str, texts: list[str], others: list[str]
) -> None:
    grammar = compiler.compile(Guide(grammar=source))
    assert [text for text in texts + others if takes(grammar, text)] == texts


few = compiler_of(FEW)


def outputs(matcher: Matcher, most: int) -> set[tuple[int, ...]]:
    """The tokens of all outputs that the rows admit; outputs that go on have one token too many."""
    row = np.zeros(FEW.num_words, np.int32)
    matcher.fill(row)
    found: set[tuple[int, ...]] = set()
    for token in map(int, allowed_tokens(row)):
        if token in FEW.eos_token_ids:
            found.add(())
        elif most == 0:
            found.add((token,))
        else:
            assert matcher.accept(token)
            found |= {(token, *rest) for rest in outputs(matcher, most - 1)}
            matcher.rollback(1)
    return found


def spellings(pattern: str, most: int) -> set[tuple[int, ...]]:
    """All token sequences of texts that match, of so many tokens at most."""
    return {
        tokens
        for length in range(most + 1)
        for tokens in itertools.product(range(6), repeat=length)
        if re.fullmatch(pattern, "".join(FEW.token_bytes[token].decode() for token in tokens))
    }


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ('root ::= ("a" | "bcc")+ "b"', "(a|bcc)+b"),
        ('root ::= "b" | root "ba"?', "b(ba)*"),
        ('root ::= "aa" | "ab" x | "b"\nx ::= "c" x [a-z]', "aa|b"),
    ],
)
@pytest.mark.parametrize("room", [0, 1, 2])
def test_rows_near_max_tokens_hold_all_that_ends_in_time(
    few: GrammarCompiler, source: str, pattern: str, room: int
) -> None:
    grammar = few.compile(Guide(grammar=source))
    assert isinstance(grammar, EndingGrammar)
    most = grammar.num_needed + room
    assert outputs(grammar.within(most).matcher(), most) == spellings(pattern, most - 1)


@pytest.mark.parametrize(
    ("source", "other"),
    [
        ('root ::= "a" root', 'root ::= "a" root | ""'),
        ('root ::= "b" x | x "c"\nx ::= [^c] root', 'root ::= "b" x | x "c"\nx ::= [^c] root?'),
        ('start: "a" start', 'start: "a" start?'),
        (f'start: ((("a"){{{1 << 20}}}){{{1 << 15}}}){{{1 << 29}}}', 'start: "a"'),
    ],
)
def test_a_grammar_without_an_end_is_refused(few: GrammarCompiler, source: str, other: str) -> None:
    with pytest.raises(InvalidGuide, match="no output that matches the guide ever ends"):
        few.compile(Guide(grammar=source))
    few.compile(Guide(grammar=other))


def test_rows_near_max_tokens_hold_all_tokens_of_a_class(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(Guide(grammar="root ::= [a-zA-Z0-9]{3,30}"))
    assert isinstance(grammar, EndingGrammar)
    row = np.zeros(VOCABULARY.num_words, np.int32)
    grammar.within(grammar.num_needed + 1).matcher().fill(row)
    assert len(allowed_tokens(row)) >= 62


def wrong_bits(matcher: Matcher, depth: int) -> list[int]:
    """Tokens that are in a row and not taken, or taken and not in the row."""
    row = np.zeros(FEW.num_words, np.int32)
    matcher.fill(row)
    allowed = set(map(int, allowed_tokens(row)))
    wrong = []
    for token in range(len(FEW)):
        is_taken = matcher.accept(token)
        if is_taken != (token in allowed):
            wrong.append(token)
        if is_taken:
            if depth > 1 and not matcher.is_terminated:
                wrong += wrong_bits(matcher, depth - 1)
            matcher.rollback(1)
    return wrong


@pytest.mark.parametrize(
    "source", ['root ::= "c" root "a" | "b"', 'start: "c" start "a" | "b"', 'root ::= root? "c"']
)
def test_rows_of_a_root_that_stands_within_itself_have_all_tokens(source, new_compiler):
    made = new_compiler(FEW, backend="xgrammar")
    assert not wrong_bits(made.compile(Guide(grammar=source)).matcher(), 4)


ALIKE = ('(("a" x)? ("a" x))', '(("b" x)? ("a" x))'), ('(("b" x) | ("a" x)+)', '(("c" x)? | "b" x)')


@pytest.mark.parametrize("kind", ["grammar", "tag"])
@pytest.mark.parametrize("bodies", ALIKE)
def test_rows_are_not_those_of_a_grammar_that_was_compiled_before(bodies, kind, new_compiler):
    made = new_compiler(FEW)
    for body in bodies:
        source = f"root ::= x\nx ::= {body} | [^c]"
        tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": source}}
        guide = Guide(grammar=source) if kind == "grammar" else Guide(structural_tag=tag)
        assert not wrong_bits(made.compile(guide).matcher(), 4)


HALVES = (b"\xed\xa0\x80", b"\xed\xbf\xbf")
WHOLE = "\ud7ff\ue000\uffff\U0010ffff"


@pytest.mark.parametrize(
    ("guide", "mark"),
    [
        (Guide(grammar='root ::= [^"]*'), ""),
        (Guide(grammar="root ::= .+"), ""),
        (Guide(grammar="root ::= [^]*"), ""),
        (Guide(grammar=r"root ::= [\-a-\U0010ffff]*"), ""),
        (Guide(grammar=r"root ::= [é-\uffff]* [^-é]"), ""),
        (Guide(json_schema={"type": "string"}), '"'),
    ],
)
def test_classes_hold_no_halves_of_surrogate_pairs(guide, mark, new_compiler):
    """Which no text in UTF-8 has."""
    made = new_compiler(VOCABULARY, backend="xgrammar")
    grammar = made.compile(guide)
    assert takes(grammar, f"{mark}{WHOLE}{mark}")
    assert isinstance(grammar, EndingGrammar)
    for near_end in (grammar, grammar.within(grammar.num_needed + 4)):
        for half in HALVES:
            assert not takes(near_end, b"".join([mark.encode(), half, mark.encode()]))


@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        (r"root ::= [a-]", "a-", "b"),
        (r"root ::= [-\uffff]", "-\uffff", "a\ue000"),
        (r"root ::= [\]-\uffff-]", "]^\ue000\uffff-", "[\U00010000"),
        (r"root ::= [é-\uD7FF\ue000-\uF000-]", "é\ud7ff\ue000\uf000-", "z\uf001"),
        (r"root ::= [^\-\]a]", "[b\uffff", "-]a"),
    ],
)
def test_classes_are_read_to_their_last_character(
    compiler: GrammarCompiler, source: str, inside: str, outside: str
) -> None:
    grammar = compiler.compile(Guide(grammar=source))
    assert [char for char in inside + outside if takes(grammar, char)] == list(inside)


@pytest.mark.parametrize(
    ("source", "texts", "others"),
    [
        ('root ::= "a" | \nb[capture] ::= "b"', ["a", ""], ["b"]),
        ('root[capture="a]"] ::= "a"', ["a"], ["b", ""]),
        ('root ::= b-c "b" # [\nb-c [lazy] ::= [a-z]+', ["ab"], ["aab"]),
        ("root[max_chars=2, capture] ::= [a-z]*", ["ab"], ["abc"]),
    ],
)
def test_rules_may_have_options(
    compiler: GrammarCompiler, source: str, texts: list[str], others: list[str]
) -> None:
    grammar = compiler.compile(Guide(grammar=source))
    assert [text for text in texts + others if takes(grammar, text)] == texts


def test_the_temperature_of_a_rule_is_refused(compiler: GrammarCompiler) -> None:
    with pytest.raises(UnsupportedGuide, match="temperature= of a rule in a grammar in EBNF"):
        compiler.compile(Guide(grammar='root ::= b-c\nb-c[lazy, temperature=0.5] ::= "a"'))
    source = 'root ::= b [=temperature]\nb[capture="temperature=0"] ::= "a"'
    assert takes(compiler.compile(Guide(grammar=source)), "a=")


@pytest.mark.parametrize(
    ("source", "texts", "others"),
    [
        ('root ::= Regex("a(?=b)[bc]")', ["ab"], ["ac"]),
        ('root ::= Regex ( "(?!foo$)[a-z]+" ) "!"', ["fo!", "fooo!"], ["foo!"]),
        (r'root ::= Regex("^\\p{L}{2}$") "y"', ["éay"], ["p{L}", "^a$y"]),
        (r'root ::= Regex("\\Aa\\Z") "y"', ["ay"], ["aZy", "Aay"]),
        (r'root ::= Regex("\"[^\"]*\\.\"")', ['"a."'], ['"a"', b'"\xed\xa0\x80."']),
        (r'root ::= Regex("\\x0bA\\x00\\x0a\t\\t\\\\x41\x41é?\?")', ["\vA\0\n\t\t\\x41A"], ["A"]),
        (r'root ::= "\"" Regex("[^a]*", json_string=true) "\""', ['"b"'], ['"a"', '"""', '"\n"']),
        ('root ::= Regex("ab.", flags="is")', ["AB\n"], ["a"]),
        ('root ::= MyRegex("a$")\nMyRegex ::= "x"', ["xa$"], ["xa"]),
    ],
)
def test_regular_expressions_mean_what_they_mean_elsewhere(
    compiler: GrammarCompiler, source: str, texts: list[str], others: list[str | bytes]
) -> None:
    grammar = compiler.compile(Guide(grammar=source))
    assert [text for text in texts + others if takes(grammar, text)] == texts


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('"a$b"', "an anchor inside a regular expression"),
        (r'"a\\G"', r"the escape \\G"),
        ('"a(?=b).", flags="i"', "beside flags"),
    ],
)
def test_what_the_library_ignores_of_them_is_refused(
    compiler: GrammarCompiler, expression: str, message: str
) -> None:
    with pytest.raises(UnsupportedGuide, match=message):
        compiler.compile(Guide(grammar=f"root ::= Regex({expression})"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (r'"b" "\U00110000"?', "U00110000 in the grammar is beyond the last character"),
        (r"[b\UFFFFFFFF]", "UFFFFFFFF in the grammar is beyond the last character"),
        ('"b"{4294967297}', "a bound of more than 9 digits"),
        ('"b"{0, 4294967297}', "a bound of more than 9 digits"),
    ],
)
def test_what_no_library_reads_as_it_is_written_is_refused(
    compiler: GrammarCompiler, body: str, message: str
) -> None:
    with pytest.raises(InvalidGuide, match=message):
        compiler.compile(Guide(grammar=f"root ::= {body}"))
