"""The playground: what its stream tells of each token, who may read it, and the page in a headless
Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from itertools import product

import httpx
import pytest
from live_server import KEY, Server, small_server
from lora_adapters import adapter
from playground_page import page, run_example, why_no_browser

from specguide.engine.setup.target_folder import target_folder
from specguide.guide import Guide, Reasoning
from specguide.guide.ready_grammars import ready_grammars
from specguide.params import SamplingParams
from specguide.server.playground import events
from specguide.server.playground.allowed import MAX_SAMPLE, AllowedWalk
from specguide.trace import TRACKS

USER = [{"role": "user", "content": "My name is Anna and I am 31 years old."}]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMA = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
}
PARTS = (
    "/",
    "/playground/playground.css",
    "/playground/playground.js",
    "/playground/tokens.js",
    "/playground/timeline.js",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = adapter(tmp_path_factory.mktemp("adapter"), target_folder(None))
    server = small_server(trace=True, lora_modules=(f"tuned={folder}",))
    yield server
    server.stop()


def asked(**fields):
    return {"model": "small", "messages": USER, "temperature": 0, "max_tokens": 60} | fields


def told(http: httpx.Client, **fields) -> list[dict]:
    """The events of a request, up to [DONE]."""
    answer = http.post("/playground/generate", json=asked(**fields))
    assert answer.status_code == 200, answer.text
    lines = answer.text.removesuffix("\n\n").split("\n\n")
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def iterations_of(told_events):
    return [one for event in told_events if event["type"] == "delta" for one in event["iterations"]]


def tokens_of(told_events):
    return [token for one in iterations_of(told_events) for token in one["tokens"]]


def test_ready_grammars_are_presets(http):
    presets = http.get("/playground/ready-grammars").json()
    assert [one["name"] for one in presets] == [f"@{name}" for name in ready_grammars()]
    one = asked(structured_outputs={"grammar": "@iso_date"})
    answer = http.post("/v1/chat/completions", json=one).json()
    date.fromisoformat(answer["choices"][0]["message"]["content"])
    answer = http.post(
        "/v1/chat/completions", json=asked(structured_outputs={"grammar": "@iso_dat"})
    )
    assert answer.status_code == 400 and "@iso_date" in answer.json()["error"]["message"]


def test_the_stream_tells_the_answer_and_how_it_came(http):
    found = told(http, **SCHEMA)
    start, *deltas = [event for event in found if event["type"] != "spans"]
    whole = http.post("/v1/chat/completions", json=asked(**SCHEMA)).json()
    content = whole["choices"][0]["message"]["content"]
    assert start["is_guided"] and start["num_draft_tokens"] == 3
    assert start["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    assert "".join(event["text"] for event in deltas) == content
    assert "".join(token["text"] for token in tokens_of(found)[:-1]) == content
    decoded = [one for one in iterations_of(found) if not one["is_prefill"] and not one["is_held"]]
    last = deltas[-1]
    assert (last["finish_reason"], last["num_tokens"]) == (
        "stop",
        whole["usage"]["completion_tokens"],
    )
    assert last["num_iterations"] == len(decoded) == last["metrics"]["num_iterations"]
    assert (
        last["acceptance_length"] == sum(len(one["tokens"]) for one in decoded) / len(decoded) > 2
    )
    for one in decoded:
        drafts, accepted = [draft["id"] for draft in one["drafts"]], one["num_accepted"]
        ids = [token["id"] for token in one["tokens"]]
        assert ids[:accepted] == drafts[:accepted] and [
            token["is_accepted"] for token in one["tokens"]
        ] == [place < accepted for place in range(len(ids))]
    assert any(token["is_accepted"] for token in tokens_of(found))


def test_times_are_in_order_and_a_traced_engine_tells_its_timeline(http):
    found = told(http, **SCHEMA)
    iterations, spans = iterations_of(found), found[-1]["spans"]
    assert iterations[0]["begin_ms"] == 0 and iterations[0]["is_prefill"]
    for one in iterations:
        assert one["begin_ms"] <= one["end_ms"] - one["wait_ms"] <= one["end_ms"]
        assert one["grammar_ms"] >= 0 and one["grammar_exposed_ms"] >= 0
    assert {span["track"] for span in spans} == set(TRACKS)
    assert all(
        span["end_ms"] >= 0 and span["begin_ms"] <= iterations[-1]["end_ms"] for span in spans
    )
    verified = [span for span in spans if span["name"] == "verify"]
    assert len(verified) == len(iterations)
    for span, one in zip(verified, iterations, strict=True):
        assert one["begin_ms"] <= span["begin_ms"] <= span["end_ms"] <= one["end_ms"]


def test_what_the_grammar_allowed(http, server):
    """What is shown is compared with a language that can be written down."""
    words = ["".join(pair) for pair in product(("ab", "cd"), repeat=3)]
    vocabulary = server.engine.tokenizer.vocabulary(server.engine.vocab_size)
    texts = {
        token: piece.decode()
        for token, piece in enumerate(vocabulary.token_bytes)
        if piece.isascii() and piece
    }
    written = ""
    for token in tokens_of(told(http, guided_regex="(ab|cd){3}")):
        possible = {
            one
            for one, text in texts.items()
            if any(word.startswith(written + text) for word in words)
        }
        possible |= set(vocabulary.eos_token_ids) if written in words else set()
        allowed = token["allowed"]
        assert allowed["num_tokens"] == len(possible)
        assert [one["id"] for one in allowed["sample"]] == sorted(possible)[:MAX_SAMPLE]
        assert token["is_forced"] == (len(possible) == 1) and token["id"] in possible
        text = "" if token["id"] in vocabulary.eos_token_ids else token["text"]
        assert allowed["is_text_forced"] == (
            text != ""
            and all(word.startswith(written + text) for word in words if word.startswith(written))
        )
        written += text
    assert written in words


def test_forced_text_is_known_however_it_is_spelled(http):
    *found, end = tokens_of(told(http, guided_regex="The answer is (yes|no)"))
    (chosen,) = [token["text"] for token in found if not token["allowed"]["is_text_forced"]]
    assert chosen.strip()[0] in "yn" and end["is_forced"] and not end["allowed"]["is_text_forced"]


def test_a_free_request_has_no_grammar(http):
    found = told(http, max_tokens=8, ignore_eos=True)
    assert not found[0]["is_guided"] and len(tokens_of(found)) == 8
    assert all(token["allowed"] is None and not token["is_forced"] for token in tokens_of(found))


def test_a_reasoning_section_is_free(server):
    engine = server.engine
    params = SamplingParams(guide=Guide(choice=["yes"]), reasoning=Reasoning(end="</think>"))
    walk = AllowedWalk(
        engine.grammar_of(params).matcher(), engine.tokenizer.vocabulary(engine.vocab_size)
    )
    thought, end = (
        engine.tokenizer.encode("no", add_special_tokens=False),
        engine.tokenizer.token_id("</think>"),
    )
    assert all(walk.take(token).num_tokens > 1000 for token in [*thought, end])
    answer = engine.tokenizer.encode("yes", add_special_tokens=False)
    found = [walk.take(token) for token in answer]
    assert all(one.num_tokens < 10 and one.is_text_forced for one in found)
    assert walk.take(engine.tokenizer.eos_token_ids[0]) is not None and walk.take(answer[0]) is None


def test_a_walk_that_fails_leaves_the_output_alone(http, monkeypatch):
    class Failing(AllowedWalk):
        def take(self, token):
            raise RuntimeError("the library broke")

    expected = tokens_of(told(http, **SCHEMA))
    monkeypatch.setattr(events, "AllowedWalk", Failing)
    found = tokens_of(told(http, **SCHEMA))
    assert [token["id"] for token in found] == [token["id"] for token in expected]
    assert all(token["allowed"] is None for token in found)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"n": 2}, 400, "one sample"),
        ({"logprobs": True}, 400, "no log-probabilities"),
        ({"model": "gpt-7"}, 404, "does not exist"),
        ({"guided_regex": "("}, 400, ""),
        ({"top_p": 2}, 400, "top_p"),
    ],
)
def test_what_is_refused(http, change, status, words):
    answer = http.post("/playground/generate", json=asked(**change))
    assert answer.status_code == status and words in answer.json()["error"]["message"]


def test_the_page_is_open_and_the_stream_is_not(server):
    url = server.url
    for path in PARTS:
        answer = httpx.get(url + path)
        assert (
            answer.status_code == 200
            and "default-src 'none'" in answer.headers["Content-Security-Policy"]
        )
        assert "innerHTML" not in answer.text and not re.search(
            r"(src|href|url)[=(]\W*https?:", answer.text
        )
    assert httpx.post(f"{url}/playground/generate", json=asked()).status_code == 401
    assert httpx.get(f"{url}/playground/nothing.js").status_code == 401
    missing = httpx.get(f"{url}/playground/nothing.js", headers={"Authorization": f"Bearer {KEY}"})
    assert missing.status_code == 404 and "its parts are" in missing.json()["error"]["message"]


def test_a_client_that_leaves_frees_its_slot(http, server):
    """The fixture looks whether it did."""
    with http.stream(
        "POST", "/playground/generate", json=asked(max_tokens=1500, ignore_eos=True)
    ) as answer:
        next(answer.iter_lines())
    told(http, max_tokens=1)
    for _ in range(200):
        if server.engine.num_unfinished:
            http.get("/health")
    assert server.engine.num_unfinished == 0


# In a browser


@pytest.fixture
def opened(server):
    """The page, once it has been given the key."""
    reason = why_no_browser()
    if reason is not None:
        pytest.skip(reason)
    with page(server.url, viewport={"width": 1280, "height": 900}) as one:
        one.fill("#key", KEY)
        one.click("#key-form button")
        one.locator("#model", has_text="small").wait_for()
        yield one


def test_a_run_shows_tokens_figures_and_cards(opened):
    run_example(opened)
    stream, card = opened.locator("#stream"), opened.locator("#card")
    tokens = [
        stream.locator(f".token.{kind}").count()
        for kind in ("accepted", "forced", "target", "rejecting")
    ]
    assert min(tokens) > 0, tokens
    assert opened.locator("#num-tokens").inner_text() == str(stream.locator(".token").count())
    assert float(opened.locator("#acceptance").inner_text()) > 2
    stream.locator(".rejecting").last.hover()
    assert card.locator("s").count() > 0 and "chosen by the target" in card.inner_text()
    assert "line-through" in card.locator("s").first.evaluate(
        "one => getComputedStyle(one).textDecorationLine"
    )
    stream.locator(".forced").last.hover()
    assert "forced by the grammar" in card.inner_text() and "allowed 1 token:" in card.inner_text()
    assert opened.locator("#timeline rect.gain").count() >= int(
        opened.locator("#num-iterations").inner_text()
    )


def test_an_adapter_answers(opened, server):
    def answer(name):
        opened.select_option("#adapter", label=name)
        run_example(opened, "Free text")
        return opened.locator("#stream").inner_text()

    assert answer("none") != answer("tuned") and "tuned" in server.engine.stats().adapters


def test_the_keyboard_walks_the_tokens(opened):
    run_example(opened, "A tool call")
    first = opened.locator("#stream .token").first
    first.focus()
    said = [opened.locator("#card .what").inner_text()]
    for key in ("ArrowRight", "ArrowLeft", "End"):
        opened.keyboard.press(key)
        said.append(opened.locator("#card .what").inner_text())
    assert said[0] == said[2] != said[1] and "end" in said[3]
    opened.keyboard.press("Escape")
    assert opened.locator("#card").is_hidden()


def test_nothing_is_read_as_html(opened):
    opened.select_option("#kind", "regex")
    opened.fill("#guide", "<b id=x onclick=alert>&amp;</b><img src=y>")
    opened.fill("#message", "<b>hello</b>")
    opened.keyboard.press("Control+Enter")
    opened.locator("#ending", has_text="ended by").wait_for()
    assert "<b id=x onclick=alert>&amp;</b><img src=y>" in opened.locator("#stream").inner_text()
    opened.locator("#stream .token").first.hover()
    assert opened.locator("#stream b, #stream img, #card b, #card img").count() == 0


def test_what_is_wrong_is_said_beside_it(opened):
    opened.fill("#guide", '{"type": ')
    assert "JSON" in opened.locator("#guide-check.wrong").inner_text()
    opened.click("#run")
    assert opened.locator("#stream .token").count() == 0
    opened.fill("#guide", '{"type": "strange"}')
    assert opened.locator("#guide-check").inner_text() == "valid JSON"
    opened.click("#run")
    opened.locator("#error", has_text="strange").wait_for()
    opened.click("#tools-field summary")
    opened.fill("#tools", "{}")
    assert "list" in opened.locator("#tools-check").inner_text()


def test_a_run_can_be_stopped(opened):
    opened.select_option("#kind", "regex")
    opened.fill("#guide", "[a-z ]{1200,1400}")
    opened.click("text=Sampling")
    opened.fill("#max_tokens", "1400")
    opened.click("#run")
    opened.locator("#stream .token").nth(5).wait_for()
    opened.click("#stop")
    opened.locator("#ending", has_text="stopped").wait_for()
    assert opened.locator("#run").is_enabled()


def test_it_fits_a_phone(opened):
    opened.set_viewport_size({"width": 400, "height": 800})
    run_example(opened)
    opened.locator("#stream .rejecting").first.hover()
    assert opened.evaluate("document.documentElement.scrollWidth") == 400
    box = opened.locator("#card").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 400


def test_escape_hides_the_card_before_it_stops_the_run(opened):
    opened.select_option("#kind", "regex")
    opened.fill("#guide", "[a-z ]{1200,1400}")
    opened.click("text=Sampling")
    opened.fill("#max_tokens", "1400")
    opened.click("#run")
    opened.locator("#stream .token").first.wait_for()
    told = opened.evaluate(
        """() => {
          const [token, card, stop] = ["#stream .token", "#card", "#stop"]
            .map((one) => document.querySelector(one));
          const told = () => [card.hidden, token.getAttribute("aria-describedby"), stop.disabled];
          token.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
          const shown = told();
          document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
          return [shown, told()];
        }"""
    )
    assert told == [[False, "card", False], [True, None, False]]
    opened.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    opened.locator("#ending", has_text="stopped").wait_for()


def test_a_stream_that_is_cut_says_so(opened):
    start = 'data: {"type": "start"}\n\n'
    opened.route("**/playground/generate", lambda route: route.fulfill(status=200, body=start))
    opened.click("#run")
    opened.locator("#error", has_text="the stream was cut").wait_for()
