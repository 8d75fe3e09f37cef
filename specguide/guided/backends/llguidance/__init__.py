"""Owns the description of the llguidance backend, whose library is loaded later."""

from __future__ import annotations

from specguide.guided.backend_spec import Adapter, BackendSpec, GrammarSupport, Library
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.llguidance.deferred_calls import tag_may_wait, with_deferred_calls
from specguide.guided.backends.llguidance.ignored import check_ignored
from specguide.guided.backends.llguidance.json_in_lark import (
    with_distinct_items,
    with_free_keys,
    with_rewritten_schemas,
)
from specguide.guided.notations.grammar_form import GrammarForm

__all__ = ["SPEC"]

_KINDS = ("json_schema", "json_object", "regex", "grammar", "choice", "structural_tag")


def _load() -> Adapter:
    from specguide.guided.backends.llguidance import adapter

    return adapter


def _rewrite(source: str, form: GrammarForm) -> str:
    if form != "Lark":
        return source
    check_ignored(source)
    return with_rewritten_schemas(source)


SPEC = BackendSpec(
    name="llguidance",
    library=Library(_load, package="llguidance"),
    kinds=frozenset(_KINDS),
    capabilities=LLGUIDANCE,
    # The library splits text into terminals first, so it allows less than an EBNF grammar says.
    grammars=GrammarSupport(
        forms=frozenset({"Lark"}),
        rewrite=_rewrite,
        free_keys=with_free_keys,
        distinct=with_distinct_items,
        defer=with_deferred_calls,
        part=with_rewritten_schemas,
        may_wait=tag_may_wait,
    ),
    joins=True,
    rank=0,
)
