"""Owns how the arguments of a call are read: prompts as texts or token ids, conversations, and
sampling parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from specguide.errors import InvalidParams, UserError
from specguide.images import PromptIds
from specguide.inputs.integers import as_int, as_ints, is_int
from specguide.params import SamplingParams
from specguide.tokenizer import Tokenizer
from specguide.tokenizer.contents import plain_messages
from specguide.tokenizer.images import pil_image

Prompt = str | Sequence[int] | Mapping[str, Any]
"""A text, token ids, or one of them in a dict as vLLM has it: `{"prompt": text}`,
`{"prompt_token_ids": ids}`; the ids count where both are there. A dict may have images too,
`{"prompt": text, "multi_modal_data": {"image": image or images}}`, each a PIL image that stands
where the text has the model's placeholder."""

_IN_DICT = ("prompt_token_ids", "prompt")
_IMAGES = "multi_modal_data"


def prompt_list(prompts: Any) -> list[Any]:
    """One prompt, or several, as a list; each may still be wrong. Raises InvalidParams for what is
    neither. Token ids alone are one prompt."""
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    if not isinstance(prompts, Iterable) or isinstance(prompts, (bytes, bytearray)):
        raise _no_prompt(prompts)
    listed = list(prompts)
    return [listed] if listed and all(is_int(as_int(one)) for one in listed) else listed


def conversation_list(given: Any) -> list[Any]:
    """A list of conversations, from one conversation (a list of messages) or several; they are not
    checked. Raises InvalidParams for anything else, and for an empty list."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidParams(
            'chat takes a list of messages, [{"role": "user", "content": …}], or a list of such '
            f"lists; found {type(given).__name__}",
            param="messages",
        )
    many = list(given)
    if not many:
        raise InvalidParams("chat needs at least one message", param="messages")
    return [many] if isinstance(many[0], Mapping) else many


def check_variables(variables: Any) -> None:
    """Raises InvalidParams for what is no mapping of a template's variables."""
    if variables is not None and not isinstance(variables, Mapping):
        raise InvalidParams(
            "chat_template_kwargs must be a dict of the template's variables, for example "
            f'{{"enable_thinking": False}}; found {variables!r}',
            param="chat_template_kwargs",
        )


def _check_unguided(params: SamplingParams) -> None:
    """Raises InvalidParams for a guide of an answer that is begun."""
    if params.guide is not None:
        raise InvalidParams(
            "a guide constrains a whole answer, and continue_final_message continues one that has "
            "begun: leave continue_final_message or the guide out",
            param="continue_final_message",
        )


def check_begun(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raises InvalidParams where a conversation does not end with an assistant's text, which could
    be continued."""
    role, content = messages[-1].get("role"), messages[-1].get("content")
    if role != "assistant" or not content:
        found = "no text" if role == "assistant" else f"role {role!r}"
        raise InvalidParams(
            "continue_final_message continues the last message, which must have the role "
            f"'assistant' and text in 'content'; found {found}",
            param="continue_final_message",
        )


def params_list(
    params: SamplingParams | Iterable[SamplingParams] | None, num_prompts: int
) -> list[SamplingParams]:
    """Sampling parameters for each of `num_prompts` prompts.

    params: one for all prompts, or one per prompt; None: the defaults
    Raises InvalidParams where their number differs, or they are something else.
    """
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * num_prompts
    is_list = isinstance(params, Iterable) and not isinstance(params, Mapping)
    per_prompt: list[Any] = list(params) if is_list else [params]
    for one in per_prompt:
        if not isinstance(one, SamplingParams):
            raise InvalidParams(
                "params must be a SamplingParams, or a list with one for each prompt; found "
                f"{one!r}",
                param="params",
            )
    if len(per_prompt) != num_prompts:
        raise InvalidParams(
            f"params has {len(per_prompt)} SamplingParams for {num_prompts} prompts; give one for "
            "all prompts, or one for each",
            param="params",
        )
    return per_prompt


class PromptReader(Protocol):
    """An engine, as far as it reads prompts."""

    tokenizer: Tokenizer

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]: ...


def ids_or_error(engine: PromptReader, prompt: Prompt) -> tuple[int, ...] | UserError:
    """A prompt's token ids, or what is wrong with it."""
    try:
        return engine.prompt_ids(prompt)
    except UserError as error:
        return error


def conversation_ids(
    engine: PromptReader,
    conversation: Sequence[Mapping[str, Any]],
    params: SamplingParams,
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    allow_special_tokens: bool,
    is_continued: bool,
    variables: Mapping[str, Any] | None,
) -> tuple[int, ...] | UserError:
    """A conversation's token ids, or what is wrong with it; the rest as in LLM.chat."""
    guide = params.guide
    try:
        images = engine.tokenizer.image_parts()
        messages = plain_messages(conversation, images)
        if is_continued:
            check_begun(messages)
            _check_unguided(params)
        prompt = engine.tokenizer.apply_chat_template(
            messages,
            tools=tools,
            json_schema=guide.source() if guide and guide.kind == "json_schema" else None,
            variables=variables,
            add_generation_prompt=not is_continued,
            continue_final_message=is_continued,
            allow_special_tokens=allow_special_tokens,
            images=images,
        )
        if images is None or not images.images:
            return engine.prompt_ids(prompt)
        return engine.prompt_ids(images.prompt_ids(prompt))
    except UserError as error:
        return error


def prompt_ids(prompt: Prompt, tokenizer: Tokenizer, vocab_size: int) -> tuple[int, ...]:
    """The token ids of a prompt, as a tuple that all its samples share. From any thread. Raises
    InvalidParams.

    vocab_size: width of the target's logits
    """
    pictures = None
    if isinstance(prompt, Mapping):
        pictures = prompt.get(_IMAGES)
        prompt = _in_dict(prompt)
    if isinstance(prompt, str):
        prompt = tokenizer.encode(prompt) if prompt else []
    if pictures:
        prompt = _with_pictures(prompt, pictures, tokenizer)
    if isinstance(prompt, (Mapping, bytes, bytearray)):
        raise _no_prompt(prompt)
    try:
        ids = as_ints(prompt)
    except TypeError:
        raise _no_prompt(prompt) from None
    if not ids:
        raise InvalidParams("the prompt is empty; give at least one token", param="prompt")
    if set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) < vocab_size:
        return prompt if isinstance(prompt, PromptIds) else tuple(ids)
    bad = [token for token in ids if not is_int(token) or not 0 <= token < vocab_size]
    if bad and isinstance(bad[0], Mapping):
        raise _no_prompt(bad[0])
    if bad:
        raise InvalidParams(
            f"prompt token {bad[0]!r} is not a token id of this model, which has the ids 0 to "
            f"{vocab_size - 1}",
            param="prompt",
        )
    return tuple(ids)


def _in_dict(prompt: Mapping[str, Any]) -> Any:
    """What a dict has of a Prompt. Raises InvalidParams where it has nothing, or other fields."""
    stated = {name: value for name, value in prompt.items() if value is not None}
    if "role" in stated or not stated.keys() & set(_IN_DICT):
        raise _no_prompt(prompt)
    known = *_IN_DICT, _IMAGES
    if unknown := stated.keys() - set(known):
        raise InvalidParams(
            f"a prompt in a dict has no field but {' and '.join(map(repr, known))}, found "
            f"{sorted(map(str, unknown))[0]!r}: leave it out",
            param="prompt",
        )
    return next(stated[name] for name in _IN_DICT if name in stated)


def _with_pictures(token_ids: Any, pictures: Any, tokenizer: Tokenizer) -> PromptIds:
    """Token ids with the images of `multi_modal_data`. Raises InvalidParams."""
    param = f"prompt.{_IMAGES}"
    if tokenizer.images is None:
        raise InvalidParams("this model reads text only: leave images out", param=param)
    if not isinstance(pictures, Mapping) or set(pictures) != {"image"}:
        raise InvalidParams(
            f'{_IMAGES} must be {{"image": a PIL image or a list of them}}', param=param
        )
    given = pictures["image"]
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    tokenizer.images.check_number(len(listed), param)
    images = [tokenizer.images.prepare(pil_image(one, param), param) for one in listed]
    return tokenizer.images.prompt_ids(as_ints(token_ids), images)


def _no_prompt(found: Any) -> InvalidParams:
    what = type(found).__name__
    if isinstance(found, Mapping):
        is_message = "role" in found
        what += "; a conversation is for chat(messages)" if is_message else ""
    return InvalidParams(
        f"a prompt must be a text or a list of token ids, found {what}", param="prompt"
    )
