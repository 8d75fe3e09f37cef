"""Owns what the content of a message may be (a text, or text parts of either API), and how messages
are converted for strict templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specguide.errors import InvalidParams

if TYPE_CHECKING:
    from specguide.tokenizer.images import ImageParts

_TEXT_OF = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
"""Types of text parts in either API, and the field that holds each one's text."""


def between_parts(role: Any) -> str:
    """The separator between the text parts of a message: a newline, as in vLLM, but nothing for the
    model's own messages, whose parts are joined exactly as written."""
    return "" if role == "assistant" else "\n"


def plain_messages(messages: Any, images: ImageParts | None = None) -> list[dict[str, Any]]:
    """A conversation whose contents are texts, as chat templates read them; a message without a
    content is unchanged. Raises InvalidParams that names what is invalid.

    images: takes those of the user's messages, as in `text_of`
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise InvalidParams(
            f"messages must be a list of messages, found {type(messages).__name__}",
            param="messages",
        )
    return [_plain(message, f"messages[{index}]", images) for index, message in enumerate(messages)]


def _plain(message: Any, param: str, images: ImageParts | None) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise InvalidParams(
            f'{param} must be a dict like {{"role": "user", "content": …}}, found '
            f"{type(message).__name__}",
            param=param,
        )
    if "role" not in message:
        raise InvalidParams(
            f"{param} has no role: give one, as system, user or assistant", param=f"{param}.role"
        )
    made = dict(message)
    if made.get("content") is not None:
        try:
            between = between_parts(made.get("role"))
            images = images if made.get("role") == "user" else None
            made["content"] = text_of(made["content"], f"{param}.content", between, images)
        except InvalidParams as error:
            raise InvalidParams(f"{error.param}: {error}", param=error.param) from None
    return made


def text_of(content: Any, param: str, between: str, images: ImageParts | None = None) -> str:
    """The text of a content: a text, or text parts of either API, joined by `between`. As with
    vLLM, a part may be a plain text, and a part whose text is null is left out. Raises
    InvalidParams that names any other part.

    images: takes images among the parts, for which it has marks in the text; None: they are invalid
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidParams(
            "content must be a text or a list of text parts, found "
            + ("none" if content == () else type(content).__name__),
            param=param,
        )
    texts: list[str] = []
    is_behind_text = False
    for index, part in enumerate(content):
        mark = images.mark_of(part, f"{param}[{index}]") if images is not None else None
        if mark is not None:
            texts.append(mark)
            is_behind_text = False
            continue
        text = _told(part)
        if text is None:
            continue
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, Mapping) else None
            raise InvalidParams(
                f'{_why(images)}: a part must be {{"type": "text", "text": …}}, found type '
                f"{kind!r}",
                param=f"{param}[{index}]",
            )
        texts += [between, text] if is_behind_text else [text]
        is_behind_text = True
    return "".join(texts)


def _why(images: ImageParts | None) -> str:
    return "text only is read here" if images is None else "only text and images are read here"


def _told(part: Any) -> Any:
    """The text of a part, which may be null; of what has none, something else."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    name = _TEXT_OF.get(kind) if isinstance(kind, str) else None
    return part if name is None else part.get(name, ())


def in_strict_turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The conversation with a single system message, at the start, and no two user messages in a
    row: neighbours are joined, and a later system message becomes a user message."""
    turns: list[tuple[Any, list[Mapping[str, Any]]]] = []
    for message in messages:
        role = message.get("role")
        if role == "system" and any(one != "system" for one, _ in turns):
            role = "user"
        if role in ("system", "user") and turns and turns[-1][0] == role:
            turns[-1][1].append(message)
        else:
            turns.append((role, [message]))
    return [_one_message(role, parts) for role, parts in turns]


def _one_message(role: Any, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    made = {**parts[0], "role": role}
    if len(parts) > 1:
        made["content"] = _joined([part["content"] for part in parts if part.get("content")])
    return made


def _joined(contents: Sequence[str | list[dict[str, Any]]]) -> str | list[dict[str, Any]]:
    """Contents with an empty line between them; a list of parts where one of them is."""
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "\n\n".join(texts)
    return [
        part
        for index, content in enumerate(contents)
        for part in (*[{"type": "text", "text": "\n\n"}] * (index > 0), *in_parts(content))
    ]


def in_parts(content: Any) -> Any:
    """A text as a list of one part; other contents are unchanged."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
