"""Owns how the tokenizer of a Hugging Face folder is read: with `transformers`, but with the steps
of its tokenizer.json."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specguide.errors import CheckpointError
from specguide.host.transformers_import import import_transformers
from specguide.inputs.json_fields import check_fetched, is_file, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

# Classes that add nothing to tokenizer.json. With them the search for a model's own class can be
# skipped.
_PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend", "MistralCommonBackend")
_VOCABULARIES = ("tokenizer.json", "*.model", "vocab.*", "*.tiktoken", "tekken.json")
_NO_VOCABULARY = (
    "it has no tokenizer.json and no other vocabulary file; copy the tokenizer files of the model "
    "there"
)
_SENTENCEPIECE = (
    "its tokenizer.model needs the `sentencepiece` package (pip install sentencepiece), unless the "
    "folder has a tokenizer.json"
)


def transformers_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer as `transformers` reads it. The library is imported here, since that
    takes most of a second. Raises CheckpointError where it cannot be read."""
    for path in filter(is_file, (folder / "tokenizer.json", folder / "tokenizer.model")):
        check_fetched(path)
    try:
        import_transformers()
        stated = read_if_there(folder / "tokenizer_config.json").get("tokenizer_class")
        if stated in _PLAIN_CLASSES:
            from transformers import PreTrainedTokenizerFast

            return PreTrainedTokenizerFast.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        from transformers import AutoTokenizer

        # With `mistral_format`, Mistral's own library, if installed, would replace the folder's
        # tokenizer.json and template.
        chat = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, mistral_format=False
        )
        backend: Any = getattr(chat, "backend_tokenizer", None)
        is_remade = backend is not None and type(chat).__name__ not in _PLAIN_CLASSES
        if is_remade and is_file(folder / "tokenizer.json"):
            _take_steps(backend, folder / "tokenizer.json")
        return chat
    except CheckpointError:
        raise
    # transformers and tokenizers raise many kinds of errors, plain Exception among them
    except Exception as error:
        reason = _SENTENCEPIECE if _lacks_sentencepiece(folder) else str(error)
        if not any(any(folder.glob(name)) for name in _VOCABULARIES):
            reason = _NO_VOCABULARY
        raise CheckpointError(f"{folder}: its tokenizer cannot be read: {reason}") from None


def _take_steps(backend: Backend, path: Path) -> None:
    """Tokenize with the steps of tokenizer.json: transformers 5 replaces them by those of the
    stated class. Many models state GPT2Tokenizer, but share only the kind of vocabulary with it:
    SmolLM2, StarCoder 2, EXAONE 4."""
    from tokenizers import Tokenizer as Backend

    stated = Backend.from_file(str(path))
    for step in ("model", "normalizer", "pre_tokenizer", "decoder"):
        setattr(backend, step, getattr(stated, step))


def _lacks_sentencepiece(folder: Path) -> bool:
    path = folder / "tokenizer.model"
    is_alone = path.is_file() and not (folder / "tokenizer.json").exists()
    return is_alone and find_spec("sentencepiece") is None and path.read_bytes()[:1] == b"\n"


def read_if_there(path: Path) -> dict[str, Any]:
    """A JSON object, empty if there is no such file; raises CheckpointError."""
    return read_json(path) if path.exists() else {}
