"""Triggers of structural tags that could not be enforced are refused."""

from __future__ import annotations

from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from one_compiler import compiler_of

from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

X = {"type": "const_string", "value": "x"}


def tag(format_: Any) -> Guide:
    return Guide(structural_tag={"type": "structural_tag", "format": format_})


compiler = compiler_of(VOCABULARY)


@pytest.mark.parametrize("end", ["<", ["</t>", "a"]])
@pytest.mark.parametrize("place", ["content", "sequence", "or", "dispatch"])
def test_a_trigger_that_holds_the_end_of_the_tag_around_it_is_refused(
    compiler: GrammarCompiler, end: Any, place: str
) -> None:
    inner = {"type": "triggered_tags", "triggers": ["<a"]}
    inner["tags"] = [{"begin": "<a>", "content": X, "end": "</a>"}]
    content: dict[str, Any] = {
        "content": inner,
        "sequence": {"type": "sequence", "elements": [X, inner]},
        "or": {"type": "or", "elements": [inner, X]},
        "dispatch": {"type": "dispatch", "rules": [["<a", X]]},
    }[place]
    outer = {"type": "tag", "begin": "[", "content": content, "end": end}
    with pytest.raises(InvalidGuide, match="the trigger '<a' within holds"):
        compiler.compile(tag(outer))
    compiler.compile(tag({**outer, "end": "</t>"}))


@pytest.mark.parametrize(("end", "is_held"), [("</a>", True), ("x<a", True), ("x<", False)])
def test_an_end_that_holds_a_trigger_within_is_refused(
    compiler: GrammarCompiler, end: str, is_held: bool
) -> None:
    """Behind a part of such an end, the trigger would be free text."""
    tags = [{"begin": "<b>", "content": X, "end": "!"}]
    inner = {"type": "triggered_tags", "triggers": ["<"], "tags": tags}
    outer = tag({"type": "tag", "begin": "(", "content": inner, "end": end})
    if is_held:
        with pytest.raises(InvalidGuide, match="holds the trigger '<' within"):
            compiler.compile(outer)
    else:
        grammar = compiler.compile(outer)
        assert takes(grammar, f"(a<b>x!{end}") and not takes(grammar, f"(a<c{end}")


def test_a_trigger_with_which_no_tag_begins_is_refused(compiler: GrammarCompiler) -> None:
    tags = [{"begin": "[>", "content": X, "end": "]"}]
    with pytest.raises(InvalidGuide, match="no tag begins with the trigger 'a'"):
        compiler.compile(tag({"type": "triggered_tags", "triggers": ["a", "["], "tags": tags}))


@pytest.mark.parametrize(
    ("trigger", "excluded", "where"),
    [
        ("<", "<abc", "holds the trigger '<' within"),
        ("<", "x<y", "holds the trigger '<' within"),
        ("ax<", "x", "a trigger holds 'x'"),
        ("ax<", "ax<", "a trigger holds 'ax<'"),
        ("<", "x<", None),
        ("<a", "<b", None),
    ],
)
def test_triggers_and_excludes_that_hold_each_other_are_refused(
    compiler: GrammarCompiler, trigger: str, excluded: str, where: str | None
) -> None:
    tags = [{"begin": f"{trigger}>", "content": X, "end": "!"}]
    format_ = {"type": "triggered_tags", "triggers": [trigger], "tags": tags}
    excluding = tag({**format_, "excludes": [excluded]})
    if where is not None:
        with pytest.raises(InvalidGuide, match=where):
            compiler.compile(excluding)
    else:
        grammar = compiler.compile(excluding)
        assert takes(grammar, f"a{trigger}>x!a") and not takes(grammar, f"a{excluded}")


def test_a_trigger_within_another_is_refused(compiler: GrammarCompiler) -> None:
    def triggered(*triggers: str) -> Guide:
        tags = [{"begin": f"{trigger}>", "content": X, "end": "!"} for trigger in triggers]
        return tag({"type": "triggered_tags", "triggers": triggers, "tags": tags})

    with pytest.raises(InvalidGuide, match="the trigger 'a' stands within another"):
        compiler.compile(triggered("a", "<ab"))
    for triggers in (("<", "<a"), ("a", "<a")):
        grammar = compiler.compile(triggered(*triggers))
        assert all(takes(grammar, f"x{trigger}>x!") for trigger in triggers)
