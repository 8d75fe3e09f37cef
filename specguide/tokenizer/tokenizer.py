"""Owns Tokenizer: a model folder's tokenizer and chat template."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from specguide.errors import CheckpointError, InvalidParams
from specguide.inputs.gguf_file import find_gguf, read_header
from specguide.inputs.integers import as_ints
from specguide.other_engines import (
    OTHER_TEMPLATE_OPTIONS,
    OTHER_TOKENIZER_ATTRIBUTES,
    missing,
    without_others,
)
from specguide.tokenizer.chat_template import ChatTemplate, template_values, up_to_final_message
from specguide.tokenizer.client_template import ClientTemplate
from specguide.tokenizer.control_tokens import ControlTokens
from specguide.tokenizer.detokenizer import Detokenizers, IncrementalDetokenizer
from specguide.tokenizer.end_tokens import end_tokens
from specguide.tokenizer.gguf import gguf_tokenizer
from specguide.tokenizer.images import ImageParts, ImageReader
from specguide.tokenizer.token_bytes import token_bytes
from specguide.tokenizer.transformers_tokenizer import read_if_there, transformers_tokenizer
from specguide.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


class Tokenizer:
    """Text to token ids and back.

    eos_token_ids: the ids that end an answer; may be empty
    images:        prepares images; None: the model reads text only
    """

    def __init__(
        self, backend: Backend, eos_token_ids: Sequence[int] = (), chat: Any = None
    ) -> None:
        """backend: a `tokenizers.Tokenizer`; chat: the `transformers` tokenizer with the chat
        template."""
        self._backend = backend
        self.images: ImageReader | None = None
        self._template = ChatTemplate(chat)
        self.eos_token_ids = tuple(eos_token_ids)
        self._control_tokens = ControlTokens(backend, self.eos_token_ids)
        self._vocabularies: dict[int | None, Vocabulary] = {}
        self._detokenizers: Detokenizers | None = None
        backend.no_truncation()
        backend.no_padding()

    @classmethod
    def from_folder(cls, folder: str | Path, chat_template: str | None = None) -> Tokenizer:
        """The tokenizer of a Hugging Face folder, as `transformers` reads it: tokenizer.json,
        tokenizer_config.json, template (or chat_template.json).

        The end tokens are those of generation_config.json, else config.json, plus that of
        tokenizer_config.json, since people who give a model a new template change only that file.
        For a GGUF file they are its own. Raises CheckpointError if the folder has no tokenizer, or
        none that works without its own Python code.

        chat_template: the text of a template in place of the folder's own. Raises InvalidParams
                       where it is malformed
        """
        tokenizer = cls._from_files(Path(folder))
        if chat_template is not None:
            tokenizer._template.replace(chat_template)
        return tokenizer

    @classmethod
    def _from_files(cls, folder: Path) -> Tokenizer:
        if (gguf := find_gguf(folder)) is not None:
            return cls._from_gguf(gguf)
        chat = transformers_tokenizer(folder)
        backend = getattr(chat, "backend_tokenizer", None)
        if backend is None:
            raise CheckpointError(
                f"{folder}: has no tokenizer.json, and no other files to make one from; copy the "
                "tokenizer files of the model there"
            )
        if chat.chat_template is None:  # older multimodal folders have it in a separate file
            beside = read_if_there(folder / "chat_template.json")
            chat.chat_template = beside.get("chat_template")
        return cls(backend, end_tokens(folder, chat.eos_token_id), chat)

    @classmethod
    def _from_gguf(cls, path: Path) -> Tokenizer:
        backend, chat = gguf_tokenizer(path)
        return cls(backend, read_header(path).end_tokens, chat)

    @classmethod
    def from_file(cls, path: str | Path, eos_token_ids: Sequence[int] = ()) -> Tokenizer:
        """The tokenizer of a bare tokenizer.json, which may be gzipped (.gz); it has no chat
        template. Raises CheckpointError."""
        from tokenizers import Tokenizer as Backend

        path = Path(path)
        try:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            return cls(Backend.from_buffer(data), eos_token_ids)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from None
        except Exception as error:  # tokenizers raises plain Exception for a malformed file
            raise CheckpointError(f"{path}: is not a tokenizer.json: {error}") from None

    if not TYPE_CHECKING:  # to a type checker it would be an attribute of any name

        def __getattr__(self, name: str) -> NoReturn:
            raise missing(self, name, OTHER_TOKENIZER_ATTRIBUTES)

    @property
    def chat_template(self) -> str | None:
        """The text of the model's chat template, with several the one for tools; None if it has
        none."""
        return self._template.text

    def __len__(self) -> int:
        """Number of tokens with an id, added ones included."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text, with the tokens that the model wants around one (usually a begin
        token).

        Raises InvalidParams for invalid Unicode, such as half of a surrogate pair, which JSON can
        spell, and for text that the vocabulary cannot write.
        """
        try:
            # releases the GIL
            (one,) = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
            return list(one.ids)
        except TypeError:
            raise InvalidParams(
                f"{text[:40]!r} … is not valid Unicode, so it cannot be tokenized", param="prompt"
            ) from None
        except Exception as error:  # a plain Exception for a character that the vocabulary lacks
            raise InvalidParams(
                f"{text[:40]!r} … cannot be tokenized: {error}", param="prompt"
            ) from None

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of token ids, exactly as they spell it: spaces are not cleaned up."""
        return self._backend.decode(as_ints(token_ids), skip_special_tokens=skip_special_tokens)

    def detokenizer(
        self,
        prompt_ids: Sequence[int] = (),
        *,
        is_guided: bool = False,
        skip_special_tokens: bool = True,
    ) -> IncrementalDetokenizer:
        """A detokenizer for tokens that come one after another. Their texts behind the prompt,
        joined, are what `decode` would return for all of them.

        is_guided: a grammar reads the tokens' own bytes, so their text must be exactly these bytes:
                   no space is trimmed if the prompt has no text, and no character continues that
                   the prompt left incomplete
        skip_special_tokens: as for `decode`

        Raises CheckpointError for a tokenizer whose text cannot be known token by token.
        """
        if self._detokenizers is None:
            self._detokenizers = Detokenizers(self._backend)
        return self._detokenizers.make(
            prompt_ids, is_guided=is_guided, skip_special_tokens=skip_special_tokens
        )

    def read_images(self, folder: Path, most: int, dtype: str) -> None:
        """Read images from now on, if the folder's model does; most, dtype: see ImageReader. Raises
        CheckpointError."""
        self.images = ImageReader.load(folder, self._template.chat, most, dtype)

    def image_parts(self) -> ImageParts | None:
        """What takes the images of a conversation; None: the model reads text only."""
        return None if self.images is None else ImageParts(self.images)

    def token_id(self, token: str) -> int | None:
        """Id of a token given by its entry, such as "<|eot_id|>"; None if there is no such
        token."""
        return self._backend.token_to_id(token)

    def entries(self) -> dict[str, int]:
        """Ids of all tokens by their entry, added ones included."""
        return self._backend.get_vocab(with_added_tokens=True)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        json_schema: Any = None,
        *,
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        allow_special_tokens: bool = False,
        client_template: ClientTemplate | None = None,
        images: ImageParts | None = None,
        **others: Any,
    ) -> list[int]:
        """Token ids of a conversation, ready for the answer.

        messages:    with `role` and `content`, as in the OpenAI API
        tools:       tool definitions with JSON Schema parameters
        json_schema: the schema that the answer will follow, given to the template as text under
                     this name
        variables:   more variables of the template; those that it does not read are left out
        add_generation_prompt: False leaves out the opening of the answer
        continue_final_message: the conversation ends where the last message's content does
        allow_special_tokens: special tokens that messages, tools and variables spell become special
                              tokens; otherwise they stay text, and only the template's own are
                              special tokens
        client_template: the template to use instead of the model's
        images:      the images that marks in the messages stand for; in the result, each is one
                     token, which `images.prompt_ids` replaces by its own
        others:      parameters of transformers' method, accepted where they change nothing here

        Raises InvalidParams if the folder has no chat template, if the template refuses the
        messages or fails, and for variables with a reserved name; TypeError for an unknown
        parameter.
        """
        for name in without_others(OTHER_TEMPLATE_OPTIONS, others, str):
            raise TypeError(
                f"apply_chat_template has no parameter {name!r}: give a variable of the template "
                f"as variables={{{name!r}: …}}"
            )
        if json_schema is not None and not isinstance(json_schema, str):
            json_schema = json.dumps(json_schema, ensure_ascii=False)
        if images is not None:
            messages = images.messages(messages)
        values = template_values(
            messages, tools, json_schema, add_generation_prompt=add_generation_prompt
        )
        values |= self._template.known(variables or {}, values, client_template)
        render = partial(self._template.render, client=client_template)
        if continue_final_message:
            render = partial(up_to_final_message, render)
        text = render(values)
        token_ids = self.encode(text, add_special_tokens=False)
        if allow_special_tokens:
            return token_ids
        constants = self._template.constants(values, client_template)
        return self._without_forged(token_ids, text, values, constants, render)

    def _without_forged(
        self,
        token_ids: list[int],
        text: str,
        values: Mapping[str, Any],
        constants: Sequence[str],
        render: Callable[[Mapping[str, Any]], str],
    ) -> list[int]:
        """Token ids of a rendered text in which only the template's own control tokens are control
        tokens; `token_ids` if all are its own.

        constants: as for ControlTokens.marks
        """
        control_tokens = self._control_tokens
        marks = control_tokens.marks(values, text, constants)
        if marks is None:
            return token_ids
        marked = marks.unescape(render(marks.of(values)))
        own = control_tokens.places(marked)
        if [place.name for place in own] == [place.name for place in control_tokens.places(text)]:
            return token_ids
        return control_tokens.encode(marks.undo(marked), own)

    def vocabulary(self, size: int | None = None) -> Vocabulary:
        """The bytes of every token, for grammars.

        size: width of the model's logits; ids past the tokenizer's own are padding. None: the
              tokenizer's size. Raises CheckpointError if the tokenizer has more ids than that, no
              end token, or bytes that cannot be known.
        """
        if size not in self._vocabularies:
            self._vocabularies[size] = self._vocabulary(
                size
                or max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1
            )
        return self._vocabularies[size]

    def _vocabulary(self, size: int) -> Vocabulary:
        if not self.eos_token_ids:
            raise CheckpointError(
                "the tokenizer has no end token; set 'eos_token_id' in generation_config.json"
            )
        outside = [token for token in self.eos_token_ids if not 0 <= token < size]
        if outside:
            raise CheckpointError(
                f"end token {outside[0]} ('eos_token_id') is outside the vocabulary of {size}"
            )
        spelled = token_bytes(self._backend, size, frozenset(self.eos_token_ids))
        added = self._backend.get_added_tokens_decoder().items()
        special = {
            one.content: token
            for token, one in added
            if token < size and not spelled[token] and token not in self.eos_token_ids
        }
        return Vocabulary(spelled, self.eos_token_ids, special)
