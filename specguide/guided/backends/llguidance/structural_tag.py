"""Owns structural tags (xgrammar's format) for llguidance: a tag becomes a grammar in Lark syntax.

Free text ends lazily, at the first trigger or end string. What Lark cannot express is refused by
name: formats over single tokens, XML argument styles, dispatch, exclusions before an end string,
free text with more after it, and what a greedy lexer would read differently.

Source: xgrammar docs, "Structural Tag"; llguidance docs/syntax.md, "Tool calling".
"""

from __future__ import annotations

import json
from collections.abc import Callable

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guided.adapters.whitespace import just
from specguide.guided.backends.llguidance.greedy import check_greedy, tags_of_triggers
from specguide.guided.backends.llguidance.lark_rules import Marked, SchemaRules, alternatives
from specguide.guided.backends.llguidance.lark_terms import choice_term, json_rules, regex_term
from specguide.guided.lark.literal import pattern_of
from specguide.guided.notations.grammar_form import grammar_form
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.json_values import Json

_ANY_TEXT = "(?s:.*)"

Node = dict[str, Json]


def structural_tag_rules(tag: Node, limits: GuideConfig) -> str:
    """Lark rules for a structural tag.

    Raises InvalidGuide when it is malformed, UnsupportedGuide when Lark cannot express it.
    """
    if not isinstance(tag.get("format"), dict):
        raise InvalidGuide(
            "structural_tag needs a field `format` that is an object", param="structural_tag"
        )
    writer = _Writer(limits)
    start = writer.term(tag["format"], last=True)
    check_greedy(tag["format"])
    return "\n".join([f"start: {start}", *writer.rules])


class _Writer:
    """Writes formats as Lark terms, and adds the rules that they need to `rules`. `last`: nothing
    follows the term."""

    def __init__(self, limits: GuideConfig) -> None:
        self.rules: list[str] = []
        self._limits = limits
        self._writers: dict[str, Callable[[Node, bool], str]] = {
            "const_string": self._const_string,
            "json_schema": self._json_schema,
            "regex": self._regex,
            "grammar": self._grammar,
            "any_text": self._any_text,
            "sequence": self._sequence,
            "or": self._or,
            "optional": self._optional,
            "plus": self._plus,
            "star": self._star,
            "repeat": self._repeat,
            "tag": self._tag,
            "triggered_tags": self._triggered_tags,
            "tags_with_separator": self._tags_with_separator,
        }

    def term(self, node: Node, *, last: bool) -> str:
        kind = node.get("type") if isinstance(node, dict) else None
        if kind not in self._writers:
            raise _unsupported(f"the format {kind!r}")
        return self._writers[kind](node, last)

    def _rule(self, body: str, *, lazy: bool = False) -> str:
        name = f"part_{len(self.rules)}"
        self.rules.append(f"{name}{'[lazy]' if lazy else ''}: {body}")
        return name

    def _text_without(self, excludes: list[str]) -> str:
        """Any text that contains none of some strings."""
        text = regex_term(_ANY_TEXT)
        if not excludes:
            return text
        name = f"TEXT_{len(self.rules)}"
        self.rules.append(
            f"{name}: {text} & ~{regex_term(_ANY_TEXT + _one_of(excludes) + _ANY_TEXT)}"
        )
        return name

    def _lazy_text(self, ends: list[str]) -> str:
        """Any text up to and including the first of some strings."""
        return self._rule(regex_term(_ANY_TEXT + _one_of(ends)), lazy=True)

    def _const_string(self, node: Node, last: bool) -> str:
        return json.dumps(_field(node, "value", str))

    def _json_schema(self, node: Node, last: bool) -> str:
        return str(self._schema_rules(node))

    def _schema_rules(self, node: Node) -> SchemaRules | str:
        _refuse(node, style="json", any_order=False, excludes=[])
        limits = just(self._limits, node.get("max_whitespace_cnt"))
        return json_rules(_field(node, "json_schema", (CoreSchema, dict, bool)), limits)

    def _regex(self, node: Node, last: bool) -> str:
        return regex_term(_field(node, "pattern", str))

    def _grammar(self, node: Node, last: bool) -> str:
        source = _field(node, "grammar", str)
        # EBNF only defines texts, while Lark defines terminals, too
        if grammar_form(source) == "EBNF":
            raise _unsupported("a grammar in EBNF; write it in Lark")
        return "%lark {\n" + source + "\n}"

    def _any_text(self, node: Node, last: bool) -> str:
        _refuse(node, max_tokens=None, max_chars=None)
        if not last:
            raise _unsupported("free text before other formats; put it into a tag with an end")
        return self._text_without(node.get("excludes") or [])

    def _sequence(self, node: Node, last: bool) -> str:
        elements = _field(node, "elements", list)
        terms = [
            self.term(element, last=last and i == len(elements) - 1)
            for i, element in enumerate(elements)
        ]
        return self._rule(" ".join(terms))

    def _or(self, node: Node, last: bool) -> str:
        return self._rule(
            " | ".join(self.term(element, last=last) for element in _field(node, "elements", list))
        )

    def _optional(self, node: Node, last: bool) -> str:
        return self._rule(self.term(_field(node, "content", dict), last=last)) + "?"

    def _plus(self, node: Node, last: bool) -> str:
        return self._rule(self.term(_field(node, "content", dict), last=False)) + "+"

    def _star(self, node: Node, last: bool) -> str:
        return self._rule(self.term(_field(node, "content", dict), last=False)) + "*"

    def _repeat(self, node: Node, last: bool) -> str:
        least, most = _field(node, "min", int), _field(node, "max", int)
        content = self._rule(self.term(_field(node, "content", dict), last=False))
        return f"{content}{{{least},{'' if most < 0 else most}}}"

    def _tag(self, node: Node, last: bool) -> str:
        return json.dumps(_field(node, "begin", str)) + " " + self._content_and_end(node, last)

    def _tags(self, tags: list[Node], trigger: str = "") -> str:
        """A choice of tags, without the trigger with which each begins."""
        return self._rule(alternatives([self._alternative(tag, trigger) for tag in tags]))

    def _alternative(self, tag: Node, trigger: str) -> Marked | str:
        begin = _field(tag, "begin", str)[len(trigger) :]
        content, ends = _field(tag, "content", dict), _ends(tag)
        if content.get("type") == "json_schema":
            return Marked(begin, self._schema_rules(content), ends)
        return f"{json.dumps(begin)} {self._content_and_end(tag, False)}"

    def _content_and_end(self, node: Node, last: bool) -> str:
        content, ends = _field(node, "content", dict), _ends(node)
        if not ends:
            return self.term(content, last=last)
        if content.get("type") == "any_text" and all(ends):
            _refuse(content, max_tokens=None, max_chars=None, excludes=[])
            return self._lazy_text(ends)
        # one term, since a separate one would swallow what looks like the end
        if content.get("type") == "regex":
            return regex_term(f"(?:{_field(content, 'pattern', str)}){_one_of(ends)}")
        return f"{self.term(content, last=False)} {self._rule(choice_term(ends))}"

    def _triggered_tags(self, node: Node, last: bool) -> str:
        _refuse(node, excludes=[])
        if not last:
            raise _unsupported("triggered tags before other formats")
        triggers, tags = _field(node, "triggers", list), _field(node, "tags", list)
        options = []
        for tag in tags:
            _field(tag, "begin", str)
        for trigger, rest in tags_of_triggers(triggers, tags):
            if rest:
                options.append(f"{self._lazy_text([trigger])} {self._tags(rest, trigger)}")
        triggered, text = self._rule(" | ".join(options)), self._text_without(triggers)
        stops = node.get("stop_after_first")
        if node.get("at_least_one"):
            direct = self._tags(tags)
            return direct if stops else f"{direct} {triggered}* {text}"
        return self._rule(f"{text} | {triggered}") if stops else f"{triggered}* {text}"

    def _tags_with_separator(self, node: Node, last: bool) -> str:
        tag = self._tags(_field(node, "tags", list))
        separator = json.dumps(_field(node, "separator", str))
        tags = tag if node.get("stop_after_first") else self._rule(f"{tag} ({separator} {tag})*")
        return tags if node.get("at_least_one") else f"{tags}?"


def _field(node: Node, name: str, types: type | tuple[type, ...]) -> Json:
    value = node.get(name)
    if name in ("begin", "end") and isinstance(value, dict):
        raise _unsupported(f"a token as `{name}`; give a text")
    if not isinstance(value, types):
        raise InvalidGuide(
            f"structural_tag is malformed: a {node.get('type')} needs a field `{name}`",
            param="structural_tag",
        )
    return value


def _ends(tag: Node) -> list[str]:
    """The texts that may end a tag; empty where the tag ends with its content."""
    end = _field(tag, "end", (str, list))
    ends = [end] if isinstance(end, str) else end
    return ends if any(ends) else []


def _refuse(node: Node, **defaults: Json) -> None:
    """Refuse fields with values that cannot be expressed here."""
    for name, default in defaults.items():
        if node.get(name, default) != default:
            raise _unsupported(f"`{name}` in a {node['type']}")


def _unsupported(what: str) -> UnsupportedGuide:
    return UnsupportedGuide(f"llguidance cannot compile a structural tag with {what}")


def _one_of(texts: list[str]) -> str:
    """A regular expression of a choice of strings."""
    return f"(?:{'|'.join(map(pattern_of, texts))})"
