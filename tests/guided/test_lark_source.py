"""Lark as people write it: what its own parser reads, and a library does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from byte_vocabulary import EOS, VOCABULARY, backend, takes
from ending_grammars import allowed

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backend import Written
from specguide.guided.backends import backend_names
from specguide.guided.backends.llguidance import refusal
from specguide.guided.compile import GrammarCompiler
from specguide.tokenizer.vocabulary import Vocabulary


@pytest.fixture(scope="module", params=backend_names())
def compiler(request: pytest.FixtureRequest) -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(VOCABULARY, GuideConfig(backend=request.param))
    yield made
    made.close()


@pytest.mark.parametrize(
    "source",
    [
        'start: "a"\n  // x\n  | "b"\n',
        'start: "a" # "\n# y "\n\n  | "b" // "\n',
        'start: "a"\n  \t\n  | "b"\n',
        '// x\r\nstart: "a"\r\n \r\n  # y\r\n  | "b"\r\n  ',
        'start: "a"\n // it is <[98]> /\n | <[98]> // or this\n',
        'start: "a"\n # with a / sign\n | /b/\n # or none "\n | /\\/\\//\n',
    ],
)
def test_comments_and_blanks_may_stand_between_alternatives(
    compiler: GrammarCompiler, source: str
) -> None:
    grammar = compiler.compile(Guide(grammar=source))
    assert takes(grammar, "a") and takes(grammar, "b") and not takes(grammar, "")


@pytest.mark.parametrize(
    "source",
    [
        "%import common.ESCAPED_STRING\nstart: ESCAPED_STRING\n",
        "start: text\n  %import common.ESCAPED_STRING -> _TEXT // of JSON\n?text: _TEXT\n",
        "%import common (WS, ESCAPED_STRING, INT)\nstart: ESCAPED_STRING\n%ignore WS\n",
        "%import common(ESCAPED_STRING)\nstart: PAIR\nPAIR: ESCAPED_STRING\n",
        "start: %lark {\n%import common.ESCAPED_STRING -> TEXT\nstart: TEXT\n}\n",
    ],
)
def test_escaped_strings_hold_no_line_ends(compiler: GrammarCompiler, source: str) -> None:
    """As Lark's library has them."""
    grammar = compiler.compile(Guide(grammar=source))
    assert all(takes(grammar, text) for text in ('""', r'"a\"b\\"', r'"\n"', '"é\t"'))
    assert not any(takes(grammar, text) for text in ('"a\nb"', '"a\\\nb"', '"a"b"', r'"\"'))


@pytest.mark.parametrize(
    "source",
    [
        'start: "a" <nope>',
        "start: a\na: /[b<>]+/ // <c>\n | </s> # <d>",
        "start: %lark { start: <|x|> }",
    ],
)
def test_names_of_no_special_tokens_are_refused(compiler: GrammarCompiler, source: str) -> None:
    """llguidance, which is told of none, would panic."""
    with pytest.raises(InvalidGuide, match="special token") as raised:
        compiler.compile(Guide(grammar=source))
    assert "panic" not in str(raised.value)


def test_what_is_written_as_a_special_token_in_a_text_is_none(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(Guide(grammar='start: "<b>" /<i>/ // <c>\n # </s>\n'))
    assert takes(grammar, "<b><i>")


@pytest.mark.parametrize("is_isolated", [False, True])
def test_special_tokens_may_be_called_by_their_names(is_isolated, new_compiler):
    spelled = (*(bytes([byte]) for byte in range(256)), b"", b"", b"")
    named = Vocabulary(spelled, (256,), {"<|end|>": 257, "<|im end|>": 258})
    made = new_compiler(named, isolate_compiles=is_isolated)
    source = 'start: (a <|end|>)+ <[258]> | "<|end|>" <|im end|> // <|no|>\na: "a" /<|end|>/?'
    tag = {"format": {"type": "grammar", "grammar": source}, "type": "structural_tag"}
    for guide in (Guide(grammar=source), Guide(structural_tag=tag)):
        grammar = made.compile(guide)
        for tokens in ([97, 257, 97, 257, 258], [*b"<|end|>", 258]):
            matcher = grammar.matcher()
            assert all(map(matcher.accept, [*tokens, 256]))
        assert not grammar.matcher().accept(257)
    with pytest.raises(InvalidGuide, match=r"<\|no\|> .* no special token of this model"):
        made.compile(Guide(grammar="start: <|no|>"))


@pytest.mark.parametrize("native", [True, False])
def test_any_token_is_no_end_token_where_the_text_may_not_end(native: bool) -> None:
    written = Written("grammar", "lark", "start: <[97]> <[*]>*")
    matcher = backend("llguidance", native).compile(written, GuideConfig()).matcher()
    for may_end in (False, True, True):
        found = allowed(matcher, VOCABULARY)
        assert (EOS in found) == may_end == matcher.accept(EOS)
        matcher.rollback(may_end)
        assert 97 in found and matcher.accept(97)


@pytest.mark.parametrize("native", [True, False])
def test_a_panic_of_the_library_tells_no_places_in_its_code(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal, "named_token", lambda _: None)  # nothing else is known to panic
    written = Written("grammar", "lark", 'start: "a" <nope>')
    with pytest.raises(InvalidGuide, match="panic") as raised:
        backend("llguidance", native).compile(written, GuideConfig())
    assert "backtrace" not in str(raised.value) and "\n" not in str(raised.value)


def test_an_escaped_string_of_ones_own_stays(compiler: GrammarCompiler) -> None:
    source = 'start: ESCAPED_STRING\nESCAPED_STRING: "x"\n'
    grammar = compiler.compile(Guide(grammar=source))
    assert takes(grammar, "x") and not takes(grammar, '""')


@pytest.mark.parametrize("expression", [r"a\Z", r"\Ab", r"[\p{Lu}]", "a^b", "a$"])
def test_escapes_that_xgrammar_takes_for_letters_are_refused(expression, new_compiler):
    made = new_compiler(VOCABULARY, backend="xgrammar")
    with pytest.raises(UnsupportedGuide, match="xgrammar would not enforce"):
        made.compile(Guide(grammar=f"start: /{expression}/\n"))
    assert takes(made.compile(Guide(grammar=r"start: /\\Z[^\\p]/")), r"\Za")
