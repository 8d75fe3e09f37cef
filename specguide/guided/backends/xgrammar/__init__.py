"""Owns the description of the xgrammar backend, whose library is loaded later."""

from __future__ import annotations

from specguide.errors import UnsupportedGuide
from specguide.guided.backend_spec import Adapter, BackendSpec, GrammarSupport, Library
from specguide.guided.backends.xgrammar.capabilities import XGRAMMAR
from specguide.guided.backends.xgrammar.escapes import with_closed_escapes
from specguide.guided.backends.xgrammar.surrogates import without_surrogates
from specguide.guided.lark.source import as_lark_reads
from specguide.guided.notations.grammar_form import GrammarForm, with_any_characters

__all__ = ["SPEC"]

_IGNORED = ("%json", "$", "^", r"\A", r"\Z", r"\z", r"\p", r"\P")
_KINDS = ("json_schema", "json_object", "regex", "grammar", "choice", "structural_tag")


def _load() -> Adapter:
    from specguide.guided.backends.xgrammar import adapter

    return adapter


def _rewritten(source: str, form: GrammarForm) -> str:
    """The grammar as the library must be given it. Raises UnsupportedGuide for Lark that the
    library would ignore."""
    if form == "EBNF":
        return without_surrogates(with_closed_escapes(with_any_characters(source)))
    read = source.replace(r"\\", "").replace("[^", "")  # removes [^, in which ^ negates a class
    ignored = next((sign for sign in _IGNORED if sign in read), None)
    if ignored is not None:
        raise UnsupportedGuide(
            f"xgrammar would not enforce {ignored} in a Lark grammar; leave it out"
        )
    return as_lark_reads(source)


SPEC = BackendSpec(
    name="xgrammar",
    library=Library(_load, package="xgrammar", imports_torch=True),
    kinds=frozenset(_KINDS),
    capabilities=XGRAMMAR,
    grammars=GrammarSupport(frozenset({"EBNF"}), _rewritten),
    rank=1,
)
