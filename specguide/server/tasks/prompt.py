"""Owns the rendering of a conversation to a prompt, with the model's chat template or the client's,
and the variables that the template gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from specguide.engine.requests.prompts import check_begun
from specguide.errors import InvalidParams
from specguide.server.bodies.shared_fields import ContinuedFields, CutFields, TemplateFields
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.call_form import CallForm, template_variables
from specguide.tokenizer import ClientTemplate
from specguide.tokenizer.images import ImageParts

MAX_NUMBER = 1_000_000
"""Largest number in chat_template_kwargs, since a template may count up to it."""
MAX_CHARS = 16_384
"""Most characters of all texts in chat_template_kwargs."""
MAX_VALUES = 256
"""Most values in chat_template_kwargs."""


class Conversation(NamedTuple):
    """Messages as chat templates read them.

    field:        the request's field with the messages
    is_continued: the last message is the beginning of the answer, which continues it
    cut:          how a long prompt is cut
    images:       the images that marks in the messages stand for; None: the model reads none
    """

    field: str
    messages: Sequence[dict[str, Any]]
    is_continued: bool = False
    cut: CutFields = CutFields()
    images: ImageParts | None = None

    @classmethod
    def of(cls, body: ContinuedFields, messages: Sequence[dict[str, Any]]) -> Conversation:
        """The conversation of a body's `messages`. Raises InvalidParams."""
        is_continued = body.continue_final_message
        is_begun = "add_generation_prompt" in body.model_fields_set and body.add_generation_prompt
        if is_continued and is_begun:
            raise InvalidParams(
                "add_generation_prompt begins a new answer, and continue_final_message continues "
                "the last one: leave one of them out",
                param="add_generation_prompt",
            )
        if is_continued:
            check_begun(messages)
        return cls("messages", messages, is_continued)

    def with_images(self, token_ids: list[int]) -> Sequence[int]:
        """Token ids of the rendered conversation, with the tokens of its images. Raises
        InvalidParams, which names the field."""
        if self.images is None or not self.images.images:
            return token_ids
        try:
            return self.images.prompt_ids(token_ids)
        except InvalidParams as error:
            raise InvalidParams(str(error), param=self.field) from None


def prompt_ids(
    backend: Backend,
    asked: TemplateFields,
    conversation: Conversation,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    json_schema: Any = None,
    add_generation_prompt: bool = True,
    variables: Mapping[str, Any] | None = None,
) -> list[int]:
    """Token ids of a conversation, of any length; each image is one token, see ImageParts. Raises
    InvalidParams, which names the field.

    variables: the template's variables; those of the request override them
    """
    own_variables = asked.chat_template_kwargs or {}
    check_variables(own_variables)
    functions = template_variables(backend.known_tool_format, tools)
    variables = {**functions, **(variables or {}), **own_variables}
    special_tokens_allowed = asked.allow_special_tokens
    if special_tokens_allowed is None:
        special_tokens_allowed = backend.config.allow_special_tokens
    try:
        return backend.tokenizer.apply_chat_template(
            _in_call_form(backend, asked, conversation.messages),
            tools,
            json_schema,
            variables=variables,
            add_generation_prompt=add_generation_prompt and not conversation.is_continued,
            continue_final_message=conversation.is_continued,
            client_template=_client_template(backend, asked),
            allow_special_tokens=special_tokens_allowed,
            images=conversation.images,
        )
    except InvalidParams as error:
        if error.param in ("messages", "prompt"):
            error.param = conversation.field
        raise


def _in_call_form(
    backend: Backend, asked: TemplateFields, messages: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The messages in the form that the template needs."""
    if not any(message.get("tool_calls") for message in messages):
        return list(messages)
    form = backend.call_form
    if asked.chat_template is not None:
        form = CallForm(form.tool_format)
    return form.applied(messages)


def check_variables(variables: Mapping[str, Any]) -> None:
    """Raises InvalidParams, which names the variable, where variables are too large for a
    template."""
    num_values = num_chars = 0
    for name, value in variables.items():
        rest = [value]
        while rest:
            one = rest.pop()
            num_values += 1
            num_chars += len(one) if isinstance(one, str) else 0
            # NaN is refused, too
            if isinstance(one, (int, float)) and not abs(one) <= MAX_NUMBER:
                raise _too_much(name, f"a number of more than {MAX_NUMBER}")
            if num_values > MAX_VALUES or num_chars > MAX_CHARS:
                raise _too_much(name, f"more than {MAX_VALUES} values or {MAX_CHARS} characters")
            if isinstance(one, dict):
                rest += [*one, *one.values()]
            elif isinstance(one, list):
                rest += one


def _too_much(name: str, what: str) -> InvalidParams:
    return InvalidParams(
        f"with {name}, chat_template_kwargs have {what}; make {name} smaller",
        param=f"chat_template_kwargs.{name}",
    )


def _client_template(backend: Backend, asked: TemplateFields) -> ClientTemplate | None:
    if asked.chat_template is None:
        return None
    config = backend.config
    if not config.allow_client_templates:
        raise InvalidParams(
            "this server takes the model's own chat template only: leave chat_template out, or "
            "start the server with --allow-client-templates",
            param="chat_template",
        )
    return ClientTemplate(
        asked.chat_template,
        config.template_timeout_s,
        config.template_max_bytes,
        backend.max_prompt_chars,
    )
