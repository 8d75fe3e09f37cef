"""Owns the choice of grammar backends for a guide, and the rewriting of the guide for each, so that
the backend enforces all of it.

JSON Schemas are rewritten into core schemas and checked keyword by keyword. Regular expressions are
written anew, so that all engines read them alike. What a backend would accept without enforcing it,
as its BackendSpec says, is refused here with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backend import Rewritten
from specguide.guided.backend_spec import BackendSpec
from specguide.guided.backends import AUTO, backend_names, backend_spec
from specguide.guided.known.call_texts import CallTexts, DeferredCalls
from specguide.guided.known.items import KnownItems
from specguide.guided.known.keys import KnownKeys
from specguide.guided.lark.attributes import lark_attributes
from specguide.guided.lark.checks import check_lark
from specguide.guided.lark.schema import BEHIND
from specguide.guided.notations.ebnf_cycles import check_cycles
from specguide.guided.notations.ebnf_escapes import with_whole_characters
from specguide.guided.notations.ebnf_expressions import with_expressions
from specguide.guided.notations.ebnf_options import with_options, without_options
from specguide.guided.notations.grammar_form import (
    GrammarForm,
    grammar_form,
    has_lookahead,
    with_empty_choices,
    with_least_counts,
)
from specguide.guided.notations.tag_calls import left_out, tag_texts
from specguide.guided.notations.tag_form import check_tag
from specguide.guided.notations.tag_starts import tag_starts
from specguide.guided.regex.charset import EVERYTHING
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import NOTHING, Both, RegexError, UnsupportedRegex
from specguide.guided.regex.whole import whole
from specguide.guided.regex.writer import restrict, write
from specguide.guided.schema.core.capabilities import Capabilities
from specguide.guided.schema.core.keywords import weight
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.core.walk import negates_numbers
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.document.document import AS_USUAL, Reading
from specguide.guided.schema.json_values import Json, JsonSchema
from specguide.guided.schema.places.key_places import key_places
from specguide.guided.written_cache import WrittenCache


def candidates(guide: Guide, requested: str) -> tuple[str, ...]:
    """Names of the backends to try for a guide, the best first.

    requested: "auto", or the backend that is asked for

    Raises InvalidGuide for a grammar in no known form.
    """
    if requested != AUTO:
        return (requested,)
    form = grammar_form(guide.source()) if guide.kind == "grammar" else None
    return tuple(name for name in backend_names() if backend_spec(name).takes(guide.kind, form))


def rewrites(
    guide: Guide,
    backend: str,
    key_order: str = "schema",
    reading: Reading = AS_USUAL,
    *,
    with_tokens: Callable[[CallTexts], CallTexts | None] = lambda _: None,
) -> Iterator[Rewritten]:
    """The forms of the guide to try with the backend, each of which it enforces in full; the best
    first.

    A JSON Schema comes once as its core, and once with all keywords merged that hold at once. The
    merged form is slower to make and loses the schema's order of properties, but does not depend on
    how the backend combines keywords. Where keys must be counted, it comes with them in any order.

    reading:     how schemas are read, except those inside of grammars
    with_tokens: adds to how calls begin what only the vocabulary tells; gives None where no
                 arguments may be left out

    Raises InvalidGuide when the guide is malformed, UnsupportedGuide when the backend would not
    enforce it.
    """
    spec = backend_spec(backend)
    kind = guide.kind
    if kind not in spec.kinds:
        raise UnsupportedGuide(
            f"{backend} does not compile {kind}; it compiles {', '.join(sorted(spec.kinds))}"
        )
    is_json = kind in ("json_schema", "structural_tag")
    value = json.loads(guide.source()) if is_json else getattr(guide, kind)
    if kind == "json_schema":
        able = _able(spec, key_order).with_guard()
        for schema in core_schemas(value, able, reading, may_free_keys=able.frees_keys):
            yield Rewritten(kind, schema)
    elif kind == "structural_tag":
        check_tag(value)
        if key_order != "any" and reading == AS_USUAL:
            yield from _with_tags(value, spec, with_tokens)
        yield _tag_guide(value, spec, key_order, reading)
    elif guide.calls is not None and key_order != "any":
        yield _with_calls(value, CallTexts(**guide.calls), spec, with_tokens)
    elif guide.is_part and spec.grammars is not None and spec.grammars.part is not None:
        yield Rewritten(kind, spec.grammars.part(value))
    else:
        yield _rewritten(kind, value, spec, key_order)


def _able(spec: BackendSpec, key_order: str) -> Capabilities:
    """What a backend enforces of schemas. Raises UnsupportedGuide where keys may come in any order
    and the backend fixes it."""
    able = spec.enforced()
    if key_order != "any":
        return able
    if not able.frees_keys:
        raise _fixed_order(spec.name)
    return able.with_free_keys()


def _fixed_order(backend: str) -> UnsupportedGuide:
    """The error for a backend that keeps an object's keys in the schema's order."""
    return UnsupportedGuide(
        f"{backend} has the keys of an object in the schema's order; ask for key_order "
        '"schema", or for backend "llguidance"'
    )


def _with_calls(
    source: str,
    calls: CallTexts,
    spec: BackendSpec,
    with_tokens: Callable[[CallTexts], CallTexts | None],
) -> Rewritten:
    """The grammar of a message with calls of many tools. Arguments that may wait are left out."""
    defer = None if spec.grammars is None else spec.grammars.defer
    texts = None if defer is None else with_tokens(calls)
    if defer is None or texts is None:
        return Rewritten("grammar", _grammar(source, spec))
    _check_grammar(source)
    text, left_out = defer(source, texts)
    return Rewritten("grammar", text, calls=left_out)


def _rewritten(kind: str, value: Json, spec: BackendSpec, key_order: str) -> Rewritten:
    """A guide of a kind without schemas, or a grammar that may contain some."""
    if kind == "regex":
        return Rewritten(kind, _regex(value, spec.joins))
    if kind == "grammar" and key_order == "any" and "%json" in value:
        text, keys, items = _with_free_keys(value, spec)
        return Rewritten(kind, text, keys, items=items)
    distinct = None if spec.grammars is None else spec.grammars.distinct
    if kind == "grammar" and distinct is not None and _is_marked(value):
        text, items = distinct(value)
        return Rewritten(kind, text, items=items)
    return Rewritten(kind, _grammar(value, spec) if kind == "grammar" else value)


def _is_marked(source: str) -> bool:
    """Whether a grammar's schemas say behind which texts their JSON begins."""
    return BEHIND in source and _check_grammar(source) == "Lark"


def _with_free_keys(source: str, spec: BackendSpec) -> tuple[str, KnownKeys, KnownItems | None]:
    """A grammar with JSON Schemas whose objects have their keys in any order."""
    if spec.grammars is None or spec.grammars.free_keys is None:
        raise _fixed_order(spec.name)
    _check_grammar(source)
    return spec.grammars.free_keys(source)


_cores: WrittenCache[CoreSchema] = WrittenCache(lambda core: 20 * weight(core), most_of_one=1 << 20)


def _schema(node: Mapping[str, Json], spec: BackendSpec, reading: Reading) -> CoreSchema:
    """The core of a schema inside a tag, cached: the same tags come again with the next request."""
    schema = node["json_schema"]
    key = (spec.name, reading)
    return _cores.get(json.dumps(schema), key, lambda: _core(schema, spec.enforced(), reading))


def _core(schema: JsonSchema, able: Capabilities, reading: Reading = AS_USUAL) -> CoreSchema:
    """The core of a schema; the merged one where the schema excludes integers, or multiples of a
    number, and the backend can do that only there."""
    cores = core_schemas(schema, able, reading)
    core = next(cores)
    return next(cores, core) if able.merges_fractions and negates_numbers(core) else core


def _regex(pattern: str, may_join: bool = False) -> str | Both:
    """A regular expression written anew. may_join: whether the result may be several expressions
    that must all match, as lookaheads ask"""
    try:
        node = restrict(whole(parse(pattern), search=False), EVERYTHING)
    except UnsupportedRegex as error:
        raise UnsupportedGuide(str(error)) from error
    except RegexError as error:
        raise InvalidGuide(str(error), param="regex") from error
    if node == NOTHING:
        raise InvalidGuide(
            f"the regular expression {pattern!r} matches nothing; look at its anchors and "
            "lookaheads",
            param="regex",
        )
    if not isinstance(node, Both):
        return write(node) or "(?:)"
    if not may_join:
        raise UnsupportedGuide("its lookaheads make the regular expression too long; simplify them")
    return node


def _with_tags(
    tag: dict[str, Json],
    spec: BackendSpec,
    with_tokens: Callable[[CallTexts], CallTexts | None],
) -> Iterator[Rewritten]:
    """A structural tag of many tags without the JSON that may wait; nothing where none may wait."""
    texts = None if spec.grammars is None else tag_texts(tag)
    spelled = None if texts is None else with_tokens(texts)
    if spelled is None or spec.grammars is None:
        return
    schemas = [inner["content"]["json_schema"] for inner in tag["format"]["tags"]]
    can_wait = list(map(spec.grammars.may_wait, schemas))
    if any(can_wait):
        left = left_out(tag, can_wait, is_reached=spelled.is_reached)
        written = _tag(left, spec, lambda node: _schema(node, spec, AS_USUAL))
        calls = DeferredCalls(vars(spelled), [], can_wait)
        yield Rewritten("structural_tag", written, calls=calls)


def _tag_guide(
    tag: dict[str, Json],
    spec: BackendSpec,
    key_order: str,
    reading: Reading,
) -> Rewritten:
    able = _able(spec, key_order)
    if key_order != "any":
        written = _tag(tag, spec, lambda node: _schema(node, spec, reading))
        return Rewritten("structural_tag", written)
    known = KnownKeys()
    starts = tag_starts(tag)

    def freed(node: Mapping[str, Json]) -> CoreSchema:
        core = list(islice(core_schemas(node["json_schema"], able, reading), 2))[-1]
        schema, places = key_places(core)
        known.add(places, [starts[id(node)]])
        return schema

    return Rewritten("structural_tag", _tag(tag, spec, freed), known)


def _tag(node: Json, spec: BackendSpec, schema: Callable[[Mapping[str, Json]], CoreSchema]) -> Json:
    """A structural tag with the schemas, regular expressions and grammars in it rewritten.

    schema: rewrites the schema of a part that holds one
    """
    if isinstance(node, list):
        return [_tag(item, spec, schema) for item in node]
    if not isinstance(node, Mapping):
        return node
    tag = {
        name: value if name == "json_schema" else _tag(value, spec, schema)
        for name, value in node.items()
    }
    if isinstance(node.get("json_schema"), (Mapping, bool)):
        tag["json_schema"] = schema(node)
    if node.get("type") == "regex" and isinstance(node.get("pattern"), str):
        tag["pattern"] = _regex(node["pattern"])
    if node.get("type") == "grammar" and isinstance(node.get("grammar"), str):
        tag["grammar"] = _grammar(node["grammar"], spec)
    return tag


def _grammar(source: str, spec: BackendSpec) -> str:
    form = _check_grammar(source)
    if form == "EBNF":
        source, options = without_options(source)
        check_cycles(source)
        source = with_expressions(source, _expression)
        source = with_empty_choices(with_least_counts(with_whole_characters(source)))
        source = with_options(source, options)
    return spec.rewritten(source, form)


def _expression(pattern: str) -> str:
    """A regular expression inside a grammar, written anew."""
    written = _regex(pattern)
    assert isinstance(written, str)
    return written


def _attributes(source: str, form: GrammarForm) -> Iterator[str]:
    """The names of the attributes that the grammar's rules have."""
    if form == "Lark":
        return lark_attributes(source)
    return lark_attributes("\n".join(f"a{one}" for one in without_options(source)[1].values()))


def _check_grammar(source: str) -> GrammarForm:
    """The form of a grammar. Raises UnsupportedGuide where a part of it would be ignored."""
    form = grammar_form(source)
    if form == "EBNF" and has_lookahead(source):
        raise UnsupportedGuide(
            "the lookahead (= …) in the grammar cannot be enforced; leave it out"
        )
    if "temperature" in _attributes(source, form):
        raise UnsupportedGuide(
            f"temperature= of a rule in a grammar in {form} would be ignored; leave it out, and "
            "give temperature as a sampling parameter"
        )
    if form == "Lark":
        check_lark(source)
    return form
