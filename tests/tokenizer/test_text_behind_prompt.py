"""The text of an output is what its tokens add behind the prompt, first space included; a guided
one is its bytes."""

from __future__ import annotations

import re
from itertools import takewhile
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny import save_weights
from tokenizer_kinds import BUILDERS
from tokenizer_subjects import NAMES, any_token, subject
from transformers import PreTrainedTokenizerFast

from specguide import LLM, Guide, SamplingParams
from specguide.config import CacheConfig, EngineConfig
from specguide.request import RequestOutput
from specguide.request_records import Logprob
from specguide.server.apis.openai_objects import token_score
from specguide.server.config import ServerConfig
from specguide.server.running.sample_reader import score_of
from specguide.server.tasks.backend import Backend
from specguide.tokenizer import IncrementalDetokenizer, Tokenizer

KINDS = [*BUILDERS]
GUIDES = {
    " no| maybe": Guide(choice=(" no", " maybe")),
    r" \d{2}": Guide(regex=r" \d{2}"),
    " +x": Guide(regex=" {1,3}x"),
    "é€ ?": Guide(regex="é€ ?"),
}


def text_of(detokenizer: IncrementalDetokenizer, token_ids: list[int]) -> str:
    return "".join([*(detokenizer.add(token) for token in token_ids), detokenizer.flush()])


def added_text(
    tokenizer: Tokenizer, prompt_ids: list[int], output_ids: list[int], skips: bool = True
) -> str:
    """`decode(prompt + output)` minus `decode(prompt)`; of a character that was incomplete, what it
    has become."""
    before = tokenizer.decode(prompt_ids, skips)
    whole = tokenizer.decode([*prompt_ids, *output_ids], skips)
    num_same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, whole, strict=False))
    )
    return whole[num_same:]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300)
@given(data=st.data())
def test_any_output_behind_any_prompt(name: str, data: st.DataObject) -> None:
    tokenizer = subject(name)
    prompt = data.draw(st.lists(any_token(name), max_size=12))
    output = data.draw(st.lists(any_token(name), max_size=12))
    for skips in (True, False):
        told = text_of(tokenizer.detokenizer(prompt, skip_special_tokens=skips), output)
        assert told == added_text(tokenizer, prompt, output, skips)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "llama3"])
def test_a_grammar_knows_the_bytes_of_added_tokens(name: str) -> None:
    tokenizer = subject(name)
    table, added = tokenizer.vocabulary().token_bytes, tokenizer._backend.get_added_tokens_decoder()
    for token in [token for token, entry in added.items() if not entry.special]:
        text = text_of(tokenizer.detokenizer(is_guided=True), [token])
        assert text == table[token].decode(errors="replace"), added[token]


@pytest.mark.parametrize("name", ["sentencepiece", "metaspace-bpe", "llama3"])
@settings(max_examples=100)
@given(prompt=st.text(max_size=8), output=st.text(max_size=8))
@example("Answer:", " no")
@example("", " no")
@example(" ", " no")
@example("é€", "é€")
def test_a_guided_output_is_its_bytes(name: str, prompt: str, output: str) -> None:
    tokenizer = subject(name)
    prompt_ids = tokenizer.encode(prompt, add_special_tokens=False)
    token_ids = tokenizer.encode("a" + output, add_special_tokens=False)
    spelled = b"".join(tokenizer.vocabulary().token_bytes[token] for token in token_ids)
    for behind in (prompt_ids, prompt_ids[:-1], prompt_ids + token_ids[:1]):
        assert text_of(tokenizer.detokenizer(behind, is_guided=True), token_ids) == spelled.decode(
            errors="replace"
        )


@pytest.mark.parametrize("name", ["sentencepiece", "metaspace-bpe", "metaspace"])
def test_a_first_space_is_kept_behind_a_prompt(name: str) -> None:
    tokenizer = subject(name)
    space, letter, end = (tokenizer.token_id(entry) for entry in ("▁", "a", "<|end|>"))
    assert text_of(tokenizer.detokenizer([letter]), [space, letter]) == " a"
    assert text_of(tokenizer.detokenizer([letter, end]), [space, letter]) == " a"
    assert text_of(tokenizer.detokenizer([end]), [space, letter]) == "a"
    assert text_of(tokenizer.detokenizer([end], is_guided=True), [space, letter]) == " a"


def test_a_character_that_the_prompt_began() -> None:
    for name in ("byte-level", "sentencepiece"):
        tokenizer = subject(name)
        table = tokenizer.vocabulary().token_bytes
        a = tokenizer.token_id("a")
        assert a is not None
        euro = [table.index(bytes([value])) for value in "€".encode()]
        assert text_of(tokenizer.detokenizer([a, *euro[:2]]), [euro[2], a]) == "€a"
        assert text_of(tokenizer.detokenizer([a, *euro[:2]]), [a]) == "a"
        assert text_of(tokenizer.detokenizer([a, *euro[:2]]), []) == ""
        assert text_of(tokenizer.detokenizer([a, *euro[:2]], is_guided=True), [*euro, a]) == "€a"


@pytest.mark.parametrize("name", ["byte-level", "sentencepiece", "metaspace-bpe", "metaspace"])
def test_the_names_of_scored_tokens_make_up_the_text(name: str) -> None:
    tokenizer = subject(name)
    engine = SimpleNamespace(tokenizer=tokenizer, vocab_size=len(tokenizer), config=EngineConfig())
    backend = Backend(engine, ServerConfig("m"))  # type: ignore
    prompt, output = tokenizer.encode("a"), tokenizer.encode("a brown {")[1:]
    scores = [
        token_score(score_of(backend, token, {token: Logprob(-1.0, 1)}, 1)) for token in output
    ]
    assert "".join(score["token"] for score in scores) == added_text(tokenizer, prompt, output)
    assert all(bytes(score["bytes"]) == score["token"].encode() for score in scores)
    [end, *_] = tokenizer.eos_token_ids
    assert score_of(backend, end, {end: Logprob(0.0, 1)}, 0).text == "<|end|>"


def test_a_long_prompt_is_not_read_whole() -> None:
    tokenizer = subject("sentencepiece")
    table = tokenizer.detokenizer([])._pieces  # type: ignore[attr-defined]
    asked: list[int] = []
    table._whole, whole = lambda ids: asked.append(len(ids)) or whole(ids), table._whole
    try:
        tokenizer.detokenizer([tokenizer.token_id("a")] * 100_000)
    finally:
        del table._whole
    assert max(asked) < 10


@pytest.fixture(scope="module", params=KINDS)
def llm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A tiny model with each kind of tokenizer, in so few pages that requests lose theirs to
    others."""
    folder = tmp_path_factory.mktemp(request.param)
    backend = BUILDERS[request.param]()
    end = backend.token_to_id("<|end|>")
    save_weights(folder, vocab_size=backend.get_vocab_size() + 5, eos_token_id=end)
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>").save_pretrained(folder)
    made = LLM(
        folder, max_batch_size=8, max_model_len=96, cache=CacheConfig(page_size=8, num_pages=18)
    )
    yield made
    made.close()


def prompts(llm: LLM) -> list[list[int]]:
    """Prompts that end in a word, a space, a special token, and that have no text."""
    encode, end = llm.tokenizer.encode, llm.tokenizer.token_id("<|end|>")
    word = encode("The quick brown", add_special_tokens=False)
    return [
        word,
        encode("The quick ", add_special_tokens=False),
        [*word, end],
        [end],
        encode("a")[:1],
    ]


def test_guided_text_matches(llm: LLM) -> None:
    guides = [
        (pattern, guide)
        for pattern, guide in GUIDES.items()
        if pattern != "é€ ?" or llm.tokenizer.token_id("<0xE2>") is not None
    ]
    asked = [
        (prompt, pattern, SamplingParams(max_tokens=16, temperature=1.0, seed=seed, guide=guide))
        for seed in range(5)
        for prompt in prompts(llm)
        for pattern, guide in guides
    ]
    outputs = llm.generate([prompt for prompt, _, _ in asked], [params for _, _, params in asked])
    assert len(outputs) >= 60
    table = llm.tokenizer.vocabulary().token_bytes
    for (_, pattern, _), output in zip(asked, outputs, strict=True):
        assert output.error is None
        assert output.text == b"".join(table[token] for token in output.token_ids).decode()
        if output.finish_reason == "stop":
            assert re.fullmatch(pattern, output.text), (pattern, output.text, output.token_ids)
    assert sum(output.finish_reason == "stop" for output in outputs) > 0.9 * len(outputs)


def test_free_text_is_what_it_adds_to_the_prompt(llm: LLM) -> None:
    asked = prompts(llm) * 6
    params = [
        SamplingParams(max_tokens=24, temperature=1.0, seed=seed) for seed in range(len(asked))
    ]
    outputs = llm.generate(asked, params)
    for prompt, output in zip(asked, outputs, strict=True):
        assert output.text == added_text(llm.tokenizer, prompt, list(output.token_ids))
    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    check_stops(llm, asked, params, outputs)


def check_stops(
    llm: LLM, asked: list[list[int]], params: list[SamplingParams], outputs: list[RequestOutput]
) -> None:
    """A stop string is found where the text has it, the first space among its characters."""
    stops = [output.text[:2] for output in outputs]
    with_stops = [
        SamplingParams(
            max_tokens=24, temperature=1.0, seed=one.seed, stop=[stop] if stop.strip() else None
        )
        for one, stop in zip(params, stops, strict=True)
    ]
    for stop, output, before in zip(stops, llm.generate(asked, with_stops), outputs, strict=True):
        assert output.text == ("" if stop.strip() else before.text)
