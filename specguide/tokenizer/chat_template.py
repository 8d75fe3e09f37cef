"""Owns ChatTemplate: a model's chat template, the variables it may be given, and its errors."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from specguide.errors import InvalidParams, UserError
from specguide.tokenizer.client_template import ClientTemplate
from specguide.tokenizer.contents import in_parts, in_strict_turns


@dataclass(frozen=True)
class _Source:
    """What is known of a template from its text: the variables that it reads, and the strings that
    it mentions."""

    variables: frozenset[str]
    constants: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Source:
        """Raises jinja2.TemplateSyntaxError."""
        from jinja2 import meta, nodes

        from specguide.tokenizer.template_child import environment

        parsed = environment().parse(text)
        mentioned = {
            node.value for node in parsed.find_all(nodes.Const) if isinstance(node.value, str)
        }
        return cls(frozenset(meta.find_undeclared_variables(parsed)), tuple(sorted(mentioned)))


class ChatTemplate:
    """The chat template of a tokenizer; there may be several by name, such as one for tools.

    chat: the `transformers` tokenizer that holds it; None: there is no template
    """

    def __init__(self, chat: Any) -> None:
        self._chat = self.chat = chat
        self._sources: dict[str, _Source] = {}
        self._needs_parts_of: tuple[Any, bool] = (None, False)

    @property
    def text(self) -> str | None:
        """The text of the template; with several, of the one for tools. None if there is none."""
        template = getattr(self._chat, "chat_template", None)
        if isinstance(template, Mapping):
            template = template.get("tool_use", template.get("default"))
        return template if isinstance(template, str) else None

    def replace(self, text: str) -> None:
        """Put another template in place of all. Raises InvalidParams where it is malformed."""
        from jinja2 import TemplateSyntaxError

        try:
            self._sources = {text: _Source.of(text)}
        except TemplateSyntaxError as error:
            raise InvalidParams(
                f"chat_template is malformed at line {error.lineno}: {error.message}",
                param="chat_template",
            ) from error
        self._chat.chat_template = text

    def constants(
        self, values: Mapping[str, Any], client: ClientTemplate | None = None
    ) -> tuple[str, ...]:
        """Strings that the template chosen for these values mentions, and may search them for; none
        for a client's template."""
        return self._source(values).constants if client is None else ()

    def known(
        self,
        variables: Mapping[str, Any],
        values: Mapping[str, Any],
        client: ClientTemplate | None = None,
    ) -> dict[str, Any]:
        """The variables that the template chosen for these values reads; a client's template is
        assumed to read all.

        Raises InvalidParams for a reserved name.
        """
        taken = next((name for name in variables if name in self._reserved), None)
        if taken is not None:
            raise InvalidParams(
                f"chat_template_kwargs must not set {taken}, which is set by the engine itself",
                param=f"chat_template_kwargs.{taken}",
            )
        if not variables or client is not None:
            return dict(variables)
        read = self._source(values).variables
        return {name: value for name, value in variables.items() if name in read}

    def render(self, values: Mapping[str, Any], client: ClientTemplate | None = None) -> str:
        """The text that the template makes of these values of its variables, `messages` among them.

        If a model's template refuses the messages, or drops a system message that is not the first,
        it is rendered again with the messages in strict turns.

        client: the template to use instead. Raises InvalidParams if there is none, and for every
                error.
        """
        if client is not None:
            return client.render(
                {
                    **_special(self._chat),
                    "documents": None,
                    **values,
                    "messages": [
                        {name: value for name, value in message.items() if value is not None}
                        for message in values["messages"]
                    ],
                }
            )
        self._check()
        messages = values["messages"]
        strict = in_strict_turns(messages)
        if strict == messages:
            return self._rendered(values, messages)
        try:
            text = self._rendered(values, messages)
        except InvalidParams:
            return self._rendered(values, strict)
        return text if _has_instructions(text, messages) else self._rendered(values, strict)

    def _rendered(self, values: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
        others = {name: value for name, value in values.items() if name != "messages"}
        if self._needs_parts:
            messages = [{**one, "content": in_parts(one.get("content"))} for one in messages]
        try:
            return str(self._chat.apply_chat_template(messages, tokenize=False, **others))
        # a template can raise anything: the messages are at fault, not the server
        except Exception as error:
            raise _refused(error) from None

    @property
    def _needs_parts(self) -> bool:
        """Whether the template writes contents only where they are lists of parts, as some of
        models that read images do."""
        if self._needs_parts_of[0] is not self._chat.chat_template:
            text = secrets.token_hex(16)
            needs_parts = not self._writes(text, text) and self._writes(in_parts(text), text)
            self._needs_parts_of = self._chat.chat_template, needs_parts
        return self._needs_parts_of[1]

    def _writes(self, content: Any, text: str) -> bool:
        """Whether the template writes `text`, which `content` has; a template that refuses such a
        message counts as one that does."""
        messages = [{"role": "user", "content": content}]
        try:
            return text in str(self._chat.apply_chat_template(messages, tokenize=False))
        except Exception:  # a template can raise anything
            return not isinstance(content, list)

    @cached_property
    def _reserved(self) -> frozenset[str]:
        """Reserved names: parameters of the method that renders, and names of Jinja and of the
        tokenizer."""
        from specguide.tokenizer.template_child import environment

        method = getattr(type(self._chat), "apply_chat_template", None)
        parameters = inspect.signature(method).parameters if method is not None else ()
        return frozenset(
            ["messages", "json_schema", *parameters, *environment().globals, *_special(self._chat)]
        )

    def _check(self) -> None:
        if self.text is None:
            raise InvalidParams(
                "this model has no chat template; give a plain prompt instead of messages, or give "
                "the engine a chat_template",
                param="messages",
            )

    def _source(self, values: Mapping[str, Any]) -> _Source:
        self._check()
        try:
            text = self._chat.get_chat_template(None, values.get("tools"))
            if text not in self._sources:
                self._sources[text] = _Source.of(text)
            return self._sources[text]
        except Exception as error:
            raise _refused(error) from None


def _has_instructions(text: str, messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a rendered text contains all system messages behind the first message."""
    told = (one.get("content") for one in messages[1:] if one.get("role") == "system")
    return all((content or "").strip() in text for content in told)


def _special(chat: Any) -> dict[str, Any]:
    return dict(getattr(chat, "special_tokens_map", {}))


def _refused(error: Exception) -> UserError:
    if isinstance(error, UserError):
        return error
    return InvalidParams(
        f"the chat template refuses these messages: {str(error) or type(error).__name__}",
        param="messages",
    )


def up_to_final_message(
    render: Callable[[Mapping[str, Any]], str], values: Mapping[str, Any]
) -> str:
    """The text that `render` makes of the values, up to the end of the last message's content. To
    find that end, a mark is appended to the content, after a space because templates strip
    contents. Raises InvalidParams if the template drops the content."""
    *before, last = values["messages"]
    mark = secrets.token_hex(16)
    marked = {**last, "content": f"{last['content']}{mark} "}
    text, found, rest = render({**values, "messages": [*before, marked]}).rpartition(mark)
    if not found:
        raise InvalidParams(
            "the chat template leaves out the content of the last message, so it cannot be "
            "continued (continue_final_message)",
            param="messages",
        )
    return text if rest.startswith(" ") else text.rstrip()


def template_values(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    json_schema: str | None,
    *,
    add_generation_prompt: bool,
) -> dict[str, Any]:
    """The values that every template gets."""
    values = {
        "messages": [dict(message) for message in messages],
        "tools": [dict(tool) for tool in tools] if tools else None,
        "add_generation_prompt": add_generation_prompt,
    }
    return values if json_schema is None else {**values, "json_schema": json_schema}
