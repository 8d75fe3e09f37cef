"""Owns the lowering of forms, which stand for negations.

What the core cannot express of a form is left out; if nothing else is left, the form is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import at_work, spend
from specguide.guided.regex.both import ways_to_fail
from specguide.guided.regex.nfa import text_matcher
from specguide.guided.regex.tree import Regex, UnsupportedRegex
from specguide.guided.regex.writer import is_exact
from specguide.guided.schema.core.nodes import (
    Arrays,
    Core,
    Node,
    Objects,
    Strings,
    all_of,
    any_of,
    arrays,
    constrains_more_than_types,
    objects,
    refuse,
    strings,
)
from specguide.guided.schema.core.other_words import pattern_beside
from specguide.guided.schema.core.pattern_text import ALIKE, read_pattern, refusing, write_pattern
from specguide.guided.schema.core.patterns import few_names
from specguide.guided.schema.lowering.lowering import Lowering
from specguide.guided.schema.lowering.names import (
    FEW_NAMES,
    only_names,
    with_one_known,
    with_one_of,
)
from specguide.guided.schema.lowering.scalars import lengths_as_pattern
from specguide.guided.schema.negation.forms import (
    Branch,
    Choice,
    Conditional,
    Every,
    FailedReference,
    Failure,
    Form,
    Given,
    OnlyItems,
    OnlyMatching,
    OnlyNames,
    OnlyUnnamed,
    OtherStrings,
    OtherWords,
    Refused,
    WithItem,
    WithProperty,
    WithUnnamed,
)

_STEPS_A_FAILURE = 20


def lower_form(lowering: Lowering, form: Form) -> Core:
    """Returns the core of a form: all its instances, or some of them. Raises UnsupportedGuide for a
    form that the core cannot express."""
    match form:
        case bool():
            return form
        case Node():
            return lengths_as_pattern(lowering, form)
        case Given(schema, place):
            return lowering.lower(schema, place)
        case Refused(error):
            raise error
        case FailedReference():
            return lowering.failed_reference(form)
        case OtherWords():
            return _other_words(lowering, form)
        case OtherStrings():
            return _other_strings(lowering, form)
        case Every() | Choice() | Failure() | Conditional() | Branch():
            return _composed(lowering, form)
        case _:
            return _container(lowering, form)


_Composed: TypeAlias = Every | Choice | Failure | Conditional | Branch


def _composed(lowering: Lowering, form: _Composed) -> Core:
    """The core of a form that combines others."""
    match form:
        case Every(path, parts):
            return all_of(path, [lower_form(lowering, part) for part in parts])
        case Choice(path, parts):
            return any_of(path, [lower_form(lowering, part) for part in parts])
        case Failure():
            return _failure(lowering, form)
        case Conditional():
            return _conditional(lowering, form)
        case Branch():
            return _branch(lowering, form)


def _failure(lowering: Lowering, failure: Failure) -> Core:
    spend(_STEPS_A_FAILURE)
    options: list[Core] = []
    left_out = list(failure.unspoken)
    for way in failure.ways:
        try:
            with at_work(way.keyword, failure.path):
                for form in way.forms:
                    options.append(lower_form(lowering, form))
        except UnsupportedGuide as error:
            left_out.append(error)
    if left_out and not any(map(constrains_more_than_types, options)):
        raise left_out[0]
    core = any_of(failure.path, options)
    return replace(core, is_failure=True) if isinstance(core, Node) and core.any_of else core


def _conditional(lowering: Lowering, form: Conditional) -> Core:
    then, otherwise = (lower_form(lowering, part) for part in (form.then, form.otherwise))
    if then is True and otherwise is True:
        with suppress(UnsupportedGuide):  # it asks nothing, but may be malformed
            lower_form(lowering, form.condition)
        return True
    condition = lower_form(lowering, form.condition)
    try:
        unmet = all_of(form.path, [lower_form(lowering, form.failed), otherwise])
    except UnsupportedGuide:
        unmet = all_of(form.path, [then, otherwise])
    return any_of(form.path, [all_of(form.path, [condition, then]), unmet])


def _branch(lowering: Lowering, branch: Branch) -> Core:
    others = [lower_form(lowering, failed) for failed in branch.failed_rivals]
    return all_of(branch.given.place.path, [lower_form(lowering, branch.given), *others])


def _other_words(lowering: Lowering, form: OtherWords) -> Core:
    try:
        pattern = pattern_beside(form.words, lowering.capabilities.characters)
    except UnsupportedRegex as error:
        raise refuse(form.keyword, form.path, str(error)) from error
    return strings(form.path, Strings(pattern=pattern))


def _other_strings(lowering: Lowering, form: OtherStrings) -> Core:
    node = read_pattern(form.pattern, "pattern", form.path)
    characters = lowering.capabilities.characters
    try:
        patterns = [write_pattern(way, characters) for way in ways_to_fail(node)]
    except UnsupportedRegex as error:
        raise refuse("pattern", form.path, str(error)) from error
    options = [
        strings(form.path, Strings(pattern=pattern)) for pattern in patterns if pattern is not None
    ]
    return any_of(form.path, options)


_Container: TypeAlias = (
    WithProperty | OnlyMatching | OnlyUnnamed | WithUnnamed | OnlyNames | WithItem | OnlyItems
)


def _container(lowering: Lowering, form: _Container) -> Core:
    """Arrays and objects with a part that fails a subschema."""
    if isinstance(form, OnlyNames):
        with lowering.without_references():
            failed = lower_form(lowering, form.form)
        return False if failed is False else only_names(lowering, failed, form.place)
    failed = lower_form(lowering, form.form)
    if isinstance(form, OnlyItems):
        return arrays(form.path, Arrays(rest=failed))
    if failed is False:
        return False
    match form:
        case WithItem(path, index):
            return arrays(path, Arrays(min_items=index + 1, prefix=(*[True] * index, failed)))
        case WithProperty(path, name):
            return objects(path, Objects({name: failed}, required=(name,)))
        case OnlyUnnamed():
            return _only_unnamed(lowering, failed, form)
        case WithUnnamed():
            return _with_unnamed(lowering, failed, form)
        case OnlyMatching(path, pattern):
            return _only_matching(lowering, failed, pattern, path)


def _only_unnamed(lowering: Lowering, failed: Core, form: OnlyUnnamed) -> Core:
    named: dict[str, Core] = dict.fromkeys(form.names, False)
    characters = lowering.capabilities.characters
    with refusing("patternProperties", form.path):
        texts = [write_pattern(node, characters) for node in _exact_patterns(form)]
    patterns: dict[str, Core] = {text: False for text in texts if text is not None}
    return objects(form.path, Objects(named, patterns, failed, min_properties=1))


def _with_unnamed(lowering: Lowering, failed: Core, form: WithUnnamed) -> Core:
    named, matchers = frozenset(form.names), list(map(text_matcher, _exact_patterns(form)))

    def may_be(name: str) -> bool:
        return name not in named and not any(matcher.matches(name) for matcher in matchers)

    return with_one_known(lowering, form.path, may_be, failed)


def _exact_patterns(form: OnlyUnnamed | WithUnnamed) -> Iterator[Regex]:
    for pattern in form.patterns:
        node = read_pattern(pattern, "patternProperties", form.path)
        if not is_exact(node):
            raise refuse(
                "patternProperties",
                form.path,
                f"engines disagree on the properties that {pattern!r} matches; {ALIKE}",
            )
        yield node


def _only_matching(lowering: Lowering, failed: Core, pattern: str, path: str) -> Core:
    node = read_pattern(pattern, "patternProperties", path)
    with refusing("patternProperties", path):
        text = write_pattern(node, lowering.capabilities.characters)
    if text is None:
        return False
    names = few_names(text)
    if names and len(names) <= FEW_NAMES:
        return with_one_of(path, names, failed)
    return objects(path, Objects(patterns={text: failed}, additional=False, min_properties=1))
