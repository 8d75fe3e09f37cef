"""Owns the form of structural tags (xgrammar's format): the fields of each format, and their types.

Every field is checked here, before a backend sees the tag. An unknown field is refused, since a
backend would silently drop it.

Source: xgrammar docs, "Structural Tag".
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator
from pydantic_core import ErrorDetails

from specguide.errors import InvalidGuide
from specguide.guided.notations.held_texts import HeldTexts

MAX_WHITESPACE = 1000

_Text = Annotated[str, Field(min_length=1)]
_Token = StrictInt | str
_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Schema = dict[str, Any] | bool


def check_tag(tag: Any) -> None:
    """Raise InvalidGuide for a malformed structural tag, naming the field that is wrong."""
    try:
        _StructuralTag.model_validate(tag)
    except ValidationError as error:
        # A field with several types has an error for each. The deepest error says most.
        most = max(
            error.errors(),
            key=lambda one: (len(_path(tag, one)), not one["type"].endswith("_type")),
        )
        path = ".".join(_path(tag, most))
        words = most["msg"].removeprefix("Value error, ")
        raise InvalidGuide(
            f"structural_tag is malformed{' at ' if path else ''}{path}: {words}",
            param="structural_tag",
        ) from None


def _path(node: Any, error: ErrorDetails) -> list[str]:
    """The path in a tag to an error of pydantic, whose location also contains names of types."""
    path: list[str] = []
    may_name_type = True
    for part in error["loc"]:
        is_type = may_name_type and isinstance(node, dict) and part == node.get("type")
        is_index = isinstance(part, int) and isinstance(node, list) and part < len(node)
        may_name_type = is_index or (isinstance(node, dict) and part in node and not is_type)
        if may_name_type:
            node = node[part]
            path.append(str(part))
    return [*path, str(error["loc"][-1])] if error["type"] == "missing" else path


class _Form(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")


class _ConstString(_Form):
    type: Literal["const_string"]
    value: str


class _JsonSchema(_Form):
    type: Literal["json_schema"]
    json_schema: _Schema
    style: str = "json"
    any_order: bool = False
    max_whitespace_cnt: Annotated[int, Field(ge=0, le=MAX_WHITESPACE)] | None = None
    excludes: list[_Text] = []


class _QwenXmlParameter(_Form):
    type: Literal["qwen_xml_parameter"]
    json_schema: _Schema
    any_order: bool = False
    max_whitespace_cnt: Annotated[int, Field(ge=0, le=MAX_WHITESPACE)] | None = None
    excludes: list[_Text] = []


class _AnyText(_Form):
    type: Literal["any_text"]
    excludes: list[_Text] = []
    max_tokens: _Count | None = None
    max_chars: _Count | None = None


class _OneToken(_Form):
    type: Literal["token"] = "token"
    token: _Token


class _TokenFormat(_OneToken):
    type: Literal["token"]


class _ExcludeToken(_Form):
    type: Literal["exclude_token"]
    exclude_tokens: list[_Token] = []


class _AnyTokens(_Form):
    type: Literal["any_tokens"]
    exclude_tokens: list[_Token] = []
    max_tokens: _Count | None = None


class _Grammar(_Form):
    type: Literal["grammar"]
    grammar: _Text


class _Regex(_Form):
    type: Literal["regex"]
    pattern: _Text
    excludes: list[_Text] = []


class _Elements(_Form):
    type: Literal["sequence", "or"]
    elements: Annotated[list[_Format], Field(min_length=1)]


class _Content(_Form):
    type: Literal["optional", "plus", "star"]
    content: _Format


class _Repeat(_Form):
    type: Literal["repeat"]
    min: _Count
    max: Annotated[int, Field(ge=-1, le=2**31 - 1)]
    content: _Format

    @model_validator(mode="after")
    def _check_order(self) -> _Repeat:
        if -1 < self.max < self.min:
            raise ValueError(
                f"max ({self.max}) is less than min ({self.min}); -1 stands for no limit"
            )
        return self


class _Tag(_Form):
    type: Literal["tag"] = "tag"
    begin: str | _OneToken
    content: _Format
    end: str | Annotated[list[str], Field(min_length=1)] | _OneToken

    @model_validator(mode="after")
    def _check_end(self) -> _Tag:
        if isinstance(self.end, _OneToken):
            return self
        ends = [self.end] if isinstance(self.end, str) else self.end
        triggers = _last_triggers(self.content)
        if not triggers:
            return self
        inner = HeldTexts(end for end in ends if end)
        for trigger in triggers:
            held = inner.within(trigger)
            if held is not None:
                raise ValueError(
                    f"the trigger {trigger!r} within holds {held!r}, which ends the tag before the "
                    "trigger is there; give the tag another end, or use another trigger"
                )
        triggered = HeldTexts(triggers)
        for end in ends:
            held = triggered.within(end[:-1])
            if held is not None:
                raise ValueError(
                    f"{end!r}, which ends the tag, holds the trigger {held!r} within, which "
                    "would begin no tag there; give the tag another end, or use another trigger"
                )
        return self


def _last_triggers(content: _Format) -> list[str]:
    """The triggers of the free text at the end of a format."""
    if isinstance(content, _TriggeredTags):
        return content.triggers
    if isinstance(content, _Dispatch):
        return [trigger for trigger, _ in content.rules]
    if not isinstance(content, _Elements):
        return []
    last = content.elements if content.type == "or" else content.elements[-1:]
    return [trigger for element in last for trigger in _last_triggers(element)]


class _TagFormat(_Tag):
    type: Literal["tag"]


class _Tags(_Form):
    tags: Annotated[list[_Tag], Field(min_length=1)]
    at_least_one: bool = False
    stop_after_first: bool = False


class _TriggeredTags(_Tags):
    type: Literal["triggered_tags"]
    triggers: Annotated[list[_Text], Field(min_length=1)]
    excludes: list[_Text] = []

    @model_validator(mode="after")
    def _check_triggers(self) -> _TriggeredTags:
        triggers = HeldTexts(self.triggers)
        for tag in self.tags:
            if isinstance(tag.begin, str) and not triggers.begins(tag.begin):
                raise ValueError(
                    f"no trigger is the beginning of {tag.begin!r}, with which a tag begins; add "
                    "one to triggers"
                )
        for trigger in self.triggers:
            held = triggers.within(trigger[1:-1])
            if held is not None:
                raise ValueError(
                    f"the trigger {held!r} stands within another, which is never there before "
                    "it; use triggers of which none is within another"
                )
        begins = sorted(tag.begin for tag in self.tags if isinstance(tag.begin, str))
        for trigger in self.triggers:
            at = bisect_left(begins, trigger)
            if not any(one.startswith(trigger) for one in begins[at : at + 1]):
                raise ValueError(f"no tag begins with the trigger {trigger!r}; leave it out")
        self._check_excludes(triggers)
        return self

    def _check_excludes(self, triggers: HeldTexts) -> None:
        for text in self.excludes:
            held = triggers.within(text[:-1])
            if held is not None:
                raise ValueError(
                    f"a text of excludes holds the trigger {held!r} within, which would begin "
                    "no tag there; leave the text out, or use another trigger"
                )
        excludes = HeldTexts(self.excludes)
        for trigger in self.triggers:
            held = excludes.within(trigger)
            if held is not None:
                raise ValueError(
                    f"a trigger holds {held!r}, which excludes forbids before the trigger is "
                    "there; leave it out of excludes, or use another trigger"
                )


class _TokenTriggeredTags(_Tags):
    type: Literal["token_triggered_tags"]
    trigger_tokens: Annotated[list[_Token], Field(min_length=1)]
    exclude_tokens: list[_Token] = []


class _TagsWithSeparator(_Tags):
    type: Literal["tags_with_separator"]
    separator: str


class _Dispatch(_Form):
    type: Literal["dispatch"]
    rules: list[Annotated[tuple[str, _Format], Field(strict=False)]]
    loop: bool = True
    excludes: list[_Text] = []


class _TokenDispatch(_Form):
    type: Literal["token_dispatch"]
    rules: list[Annotated[tuple[_Token, _Format], Field(strict=False)]]
    loop: bool = True
    exclude_tokens: list[_Token] = []


_Format = Annotated[
    _ConstString
    | _JsonSchema
    | _QwenXmlParameter
    | _AnyText
    | _TokenFormat
    | _ExcludeToken
    | _AnyTokens
    | _Grammar
    | _Regex
    | _Elements
    | _Content
    | _Repeat
    | _TagFormat
    | _TriggeredTags
    | _TokenTriggeredTags
    | _TagsWithSeparator
    | _Dispatch
    | _TokenDispatch,
    Field(discriminator="type"),
]


class _StructuralTag(_Form):
    type: Literal["structural_tag"] = "structural_tag"
    format: _Format
