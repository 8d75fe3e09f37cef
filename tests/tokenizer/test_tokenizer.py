"""Token bytes are exactly what the tokenizer spells, for both kinds of tokenizers; folders,
templates, end tokens."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_files import changed_json
from hypothesis import given
from hypothesis import strategies as st
from tokenizer_kinds import BUILDERS, CORPUS, SPECIAL, TEXTS, byte_level, sentencepiece_bpe
from tokenizers import AddedToken, decoders, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from specguide import SamplingParams
from specguide.errors import CheckpointError, InvalidParams
from specguide.sampling import adjustment_of
from specguide.tokenizer import Tokenizer

TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'robot' %}{{ raise_exception('no robots') }}{% "
    "endif %}"
    "{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if tools %}tools {{ tools | length }}\n{% endif %}"
    "{% if json_schema is defined %}schema {{ json_schema }}\n{% endif %}"
    "{% if style is defined %}{{ style }}\n{% endif %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def tokenizer(name: str) -> Tokenizer:
    backend = BUILDERS[name]()
    return Tokenizer(backend, [backend.token_to_id("<|end|>")])


def spelled(subject: Tokenizer, token_ids: list[int]) -> bytes:
    table = subject.vocabulary().token_bytes
    return b"".join(table[token] for token in token_ids)


@pytest.fixture(scope="module")
def llama3(data_dir: Path) -> Tokenizer:
    path = data_dir / "tokenizers" / "llama3-tokenizer.json.gz"
    return Tokenizer.from_file(path, [128_001, 128_009])


@pytest.mark.parametrize("text", [text for text in TEXTS if "<|end|>" not in text])
def test_byte_level_spells_the_text(text: str) -> None:
    subject = tokenizer("byte-level")
    token_ids = subject.encode(text)
    assert spelled(subject, token_ids) == text.encode()
    assert subject.decode(token_ids) == text


@pytest.mark.parametrize("text", [text for text in TEXTS if text and "<|end|>" not in text])
def test_sentencepiece_spells_the_text_after_its_leading_space(text: str) -> None:
    subject = tokenizer("sentencepiece")
    token_ids = subject.encode(text)
    assert spelled(subject, token_ids) == b" " + text.encode()
    assert subject.decode(token_ids) == text


def test_metaspace_spells_what_it_knows() -> None:
    subject = tokenizer("metaspace")
    for text in CORPUS[:1] + CORPUS[4:5]:
        assert spelled(subject, subject.encode(text)) == b" " + text.encode()


@pytest.mark.parametrize("text", TEXTS)
def test_the_real_vocabulary_spells_the_text(llama3: Tokenizer, text: str) -> None:
    token_ids = llama3.encode(text, add_special_tokens=False)
    assert spelled(llama3, token_ids) == text.encode()
    assert llama3.decode(token_ids) == text


@given(st.text())
def test_the_real_vocabulary_spells_any_text(llama3: Tokenizer, text: str) -> None:
    if "<|" not in text:
        assert spelled(llama3, llama3.encode(text, add_special_tokens=False)) == text.encode()


def test_every_token_of_the_real_vocabulary(llama3: Tokenizer) -> None:
    vocabulary = llama3.vocabulary(128_256)
    assert (len(vocabulary), vocabulary.num_words, vocabulary.eos_token_ids) == (
        128_256,
        4008,
        (128_001, 128_009),
    )
    assert vocabulary.token_bytes[128_000:] == (b"",) * 256
    assert vocabulary.special_ids["<|eom_id|>"] == 128_008 and len(vocabulary.special_ids) == 254
    assert (
        all(vocabulary.token_bytes[:128_000])
        and len(set(vocabulary.token_bytes[:128_000])) == 128_000
    )
    for token in range(0, 128_000, 7):
        text = vocabulary.token_bytes[token].decode(errors="replace")
        assert llama3.decode([token]) == text


@pytest.mark.parametrize("name", BUILDERS)
def test_single_tokens_agree_with_the_decoder(name: str) -> None:
    """Between two known tokens, each entry decodes to its bytes (SentencePiece decoders trim the
    text's ends)."""
    subject = tokenizer(name)
    table = subject.vocabulary().token_bytes
    anchor = (
        len(table) - 1 - table[::-1].index(b"a")
    )  # not <0x61>: bytes that follow each other are one character
    for token in range(len(subject)):
        decoded = subject.decode([anchor, token, anchor])
        assert decoded == (b"a" + table[token] + b"a").decode(errors="replace") or token == 0


@pytest.mark.parametrize("name", BUILDERS)
def test_special_padding_and_added_tokens(name: str) -> None:
    backend = BUILDERS[name]()
    backend.add_tokens([AddedToken("<tool_call>", normalized=False, special=False)])
    end, call = backend.token_to_id("<|end|>"), backend.token_to_id("<tool_call>")
    subject = Tokenizer(backend, [end])
    vocabulary = subject.vocabulary(len(subject) + 5)
    assert [vocabulary.token_bytes[backend.token_to_id(token)] for token in SPECIAL] == [b"", b""]
    assert vocabulary.token_bytes[call] == b"<tool_call>"
    assert vocabulary.token_bytes[-5:] == (b"",) * 5
    assert subject.vocabulary(len(subject) + 5) is vocabulary
    assert subject.decode(subject.encode("a<tool_call><|end|>")) == "a<tool_call>"
    assert subject.token_id("<tool_call>") == call and subject.token_id("no such token") is None


@pytest.mark.parametrize("name", BUILDERS)
def test_an_added_token_that_the_model_was_not_made_for(name: str) -> None:
    """Gemma 3 1B has one for images."""
    backend = BUILDERS[name]()
    end, size = backend.token_to_id("<|end|>"), backend.get_vocab_size()
    expected = Tokenizer(backend, [end]).vocabulary(size)
    backend.add_special_tokens(["<image>"])
    subject = Tokenizer(backend, [end])
    vocabulary = subject.vocabulary(size)
    assert vocabulary == expected
    assert vocabulary.special_id(subject.token_id("<image>")) is None
    assert vocabulary.special_id(end) == end and vocabulary.special_id(None) is None
    params = SamplingParams(bad_words=("<image>", "a"))
    adjustment = adjustment_of(params, subject, size)
    assert adjustment is not None
    ids = [*adjustment.forbidden_ids, *sum(adjustment.forbidden_sequences, ())]
    assert ids and max(ids) < size


def test_an_end_token_is_never_text() -> None:
    backend = byte_level()
    letter = backend.token_to_id("a")
    assert Tokenizer(backend, [letter]).vocabulary().token_bytes[letter] == b""


def test_another_process_gets_a_vocabulary_without_its_tables() -> None:
    vocabulary = Tokenizer(byte_level(), [0]).vocabulary()
    assert vocabulary.native is vocabulary.native and vocabulary.ids_by_bytes
    sent = pickle.loads(pickle.dumps(vocabulary))
    assert sent == vocabulary and sent.special_ids == vocabulary.special_ids
    assert not {"native", "ids_by_bytes"} & vars(sent).keys()
    assert len(sent.native) == len(vocabulary)


def test_vocabularies_that_cannot_be() -> None:
    backend = byte_level()
    with pytest.raises(CheckpointError, match="has no end token; set 'eos_token_id'"):
        Tokenizer(backend).vocabulary()
    with pytest.raises(CheckpointError, match=r"end token 999 .* is outside the vocabulary of 400"):
        Tokenizer(backend, [999]).vocabulary(400)
    with pytest.raises(
        CheckpointError, match=r"has the token id \d+ \('.*'\), but the model has only 300 ids"
    ):
        Tokenizer(backend, [0]).vocabulary(300)
    backend.decoder = decoders.WordPiece()
    with pytest.raises(CheckpointError, match=r"decoder \(WordPiece\) is neither byte-level nor"):
        Tokenizer(backend, [0]).vocabulary()
    backend.decoder = None
    with pytest.raises(CheckpointError, match=r"decoder \(none\)"):
        Tokenizer(backend, [0]).vocabulary()


def test_files_that_are_no_tokenizers(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"gone\.json: cannot be read"):
        Tokenizer.from_file(tmp_path / "gone.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"bad\.json: is not a tokenizer\.json"):
        Tokenizer.from_file(tmp_path / "bad.json")
    (tmp_path / "bad.json.gz").write_text("{}")
    with pytest.raises(CheckpointError, match=r"bad\.json\.gz: cannot be read"):
        Tokenizer.from_file(tmp_path / "bad.json.gz")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=byte_level(), eos_token="<|end|>", bos_token="<|begin|>"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(tmp_path)
    return tmp_path


def test_a_tokenizer_class_of_the_model_s_own(tmp_path: Path) -> None:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=sentencepiece_bpe(), eos_token="<|end|>", bos_token="<|begin|>"
    )
    fast.save_pretrained(tmp_path)
    with changed_json(tmp_path, "tokenizer_config.json") as config:
        config["tokenizer_class"] = "LlamaTokenizerFast"
    subject, plain = (
        Tokenizer.from_folder(tmp_path),
        Tokenizer.from_file(tmp_path / "tokenizer.json", [377]),
    )
    assert subject.eos_token_ids == (subject.token_id("<|end|>"),)
    for text in (CORPUS[0], CORPUS[1], CORPUS[3], CORPUS[4]):
        token_ids = subject.encode(text, add_special_tokens=False)
        assert token_ids == plain.encode(text, add_special_tokens=False)
        assert spelled(subject, token_ids) == b" " + text.encode()


@pytest.mark.parametrize("name", ["GPT2Tokenizer", "Qwen2Tokenizer", "LlamaTokenizer"])
def test_a_text_is_cut_as_tokenizer_json_says_whatever_the_class(name: str, folder: Path) -> None:
    """As SmolLM2 has it, of class GPT2Tokenizer."""
    with changed_json(folder, "tokenizer_config.json") as config:
        config["tokenizer_class"] = name
    backend = byte_level()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer]
    )
    backend.save(str(folder / "tokenizer.json"))
    subject = Tokenizer.from_folder(folder)
    for text in ("fox  42  indented", *TEXTS):
        ids = backend.encode(text).ids
        assert subject.encode(text) == ids
        assert subject.decode(ids) == backend.decode(ids)


def test_end_tokens_of_a_folder(folder: Path) -> None:
    assert Tokenizer.from_folder(folder).eos_token_ids == (0,)
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 5}))
    assert Tokenizer.from_folder(folder).eos_token_ids == (5, 0)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [6, 7]}))
    assert Tokenizer.from_folder(folder).eos_token_ids == (6, 7, 0)
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"generation_config\.json: is not JSON"):
        Tokenizer.from_folder(folder)


def test_the_tokenizer_s_end_token_counts_only_where_its_file_states_it(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    stated = json.loads(path.read_text())
    unstated = {name: value for name, value in stated.items() if name != "eos_token"}
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 5, "vocab_size": 300}))
    path.write_text(json.dumps(unstated | {"tokenizer_class": "Qwen2Tokenizer"}))
    assert Tokenizer.from_folder(folder).eos_token_ids == (5,)
    path.write_text(json.dumps(stated | {"eos_token": "<|unheard of|>"}))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 5, "vocab_size": 8}))
    assert Tokenizer.from_folder(folder).eos_token_ids == (5,)


def test_a_folder_of_mistral_s_is_read_without_its_library(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "tokenizer_config.json"
    stated = json.loads(path.read_text())
    path.write_text(json.dumps(stated | {"tokenizer_class": "MistralCommonBackend"}))
    assert Tokenizer.from_folder(folder).chat_template == TEMPLATE
    asked: list[object] = []
    monkeypatch.setattr(
        "transformers.models.auto.tokenization_auto._use_mistral_format",
        lambda *names, mistral_format, **others: asked.append(mistral_format) or mistral_format,
    )
    monkeypatch.setitem(TOKENIZER_MAPPING_NAMES, "mistral", "MistralCommonBackend")
    path.write_text(json.dumps(stated | {"tokenizer_class": "LlamaTokenizerFast"}))
    (folder / "config.json").write_text(json.dumps({"model_type": "mistral"}))
    assert Tokenizer.from_folder(folder).chat_template == TEMPLATE
    assert asked == [False]


def test_chat_template(folder: Path) -> None:
    subject = Tokenizer.from_folder(folder)
    messages = [{"role": "user", "content": "Zoë?"}]

    def render(**variables: object) -> str:
        return subject.decode(subject.apply_chat_template(messages, **variables))  # type: ignore[arg-type]

    assert render() == "user: Zoë?\nassistant:"
    assert render(add_generation_prompt=False) == "user: Zoë?\n"
    assert render(json_schema={"const": "ë"}) == 'user: Zoë?\nschema {"const": "ë"}\nassistant:'
    assert render(variables={"style": "terse"}) == "user: Zoë?\nterse\nassistant:"
    assert render(json_schema='{"a":1}') == 'user: Zoë?\nschema {"a":1}\nassistant:'
    assert (
        render(tools=[{"type": "function", "function": {"name": "f"}}])
        == "user: Zoë?\ntools 1\nassistant:"
    )
    with pytest.raises(InvalidParams, match="the chat template refuses these messages: no robots"):
        subject.apply_chat_template([{"role": "robot", "content": ""}])


def test_a_chat_template_in_a_file_of_its_own(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    subject = Tokenizer.from_folder(folder)
    prompt = subject.apply_chat_template([{"role": "user", "content": "hi"}])
    assert subject.decode(prompt) == "user: hi\nassistant:"


def test_chat_without_a_template(folder: Path) -> None:
    for subject in (Tokenizer.from_file(folder / "tokenizer.json"), _without_template(folder)):
        with pytest.raises(InvalidParams, match="no chat template; give a plain prompt"):
            subject.apply_chat_template([{"role": "user", "content": "hi"}])


def _without_template(folder: Path) -> Tokenizer:
    (folder / "chat_template.jinja").unlink()
    return Tokenizer.from_folder(folder)


def test_folders_without_a_tokenizer(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: is not a folder"):
        Tokenizer.from_folder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty: its tokenizer cannot be read: it has no t"):
        Tokenizer.from_folder(tmp_path / "empty")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="its tokenizer cannot be read"):
        Tokenizer.from_folder(folder)


def test_a_tokenizer_of_sentencepiece_s_alone_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    monkeypatch.setattr("specguide.tokenizer.transformers_tokenizer.find_spec", lambda name: None)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (tmp_path / "tokenizer.model").write_bytes(b"\n\x0e\n\x05<unk>")
    with pytest.raises(CheckpointError, match="pip install sentencepiece"):
        Tokenizer.from_folder(tmp_path)


def test_truncation_and_padding_of_the_file_are_off(tmp_path: Path) -> None:
    backend = byte_level()
    backend.enable_truncation(3)
    backend.enable_padding(length=50)
    backend.save(str(tmp_path / "tokenizer.json"))
    subject = Tokenizer.from_file(tmp_path / "tokenizer.json", [0])
    assert (
        subject.decode(subject.encode("a longer text than three tokens"))
        == "a longer text than three tokens"
    )


def test_code_of_a_folder_is_never_run_nor_asked_about(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`transformers` would ask on standard input whether to run it."""
    asked: list[object] = []
    monkeypatch.setattr("builtins.input", lambda *words: asked.append(words) or "n")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}})
    )
    (folder / "own.py").write_text("raise SystemExit('this code was run')")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for auto_map in ({}, {"auto_map": {"AutoTokenizer": ["own.Slow", "own.Fast"]}}):
        (folder / "tokenizer_config.json").write_text(
            json.dumps({**config, "tokenizer_class": "Own", **auto_map})
        )
        try:
            assert Tokenizer.from_folder(folder).token_id("<|end|>") is not None
        except CheckpointError as error:
            assert "its tokenizer cannot be read" in str(error)
        assert not asked


_READ_AT_ONCE = """
import subprocess
import sys
from threading import Barrier, Thread

from specguide.tokenizer import Tokenizer

began, read = Barrier(4), []


def run():
    began.wait()
    read.append(Tokenizer.from_folder(sys.argv[1]))


threads = [Thread(target=run) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(read) == 4
"""


def test_threads_read_their_first_tokenizers_at_once(folders):
    """As an engine does whose draft model has a tokenizer of its own."""
    subprocess.run([sys.executable, "-c", _READ_AT_ONCE, str(folders[0])], check=True)
