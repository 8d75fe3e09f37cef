"""Images over HTTP, in the forms of all APIs: the answers of the engine in this process."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from service import serving
from vision_folders import picture, save_vision

from specguide import LLM, SamplingParams

TEXT = {"type": "text", "text": "What is this?"}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}


def base64_of(image: Image.Image, kind: str = "PNG") -> str:
    file = io.BytesIO()
    image.save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


def url_of(image: Image.Image, kind: str = "PNG") -> str:
    return f"data:image/{kind.lower()};base64,{base64_of(image, kind)}"


def user(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def image_url(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("vision")
    save_vision("Qwen2_5_VL", made)
    return made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    options = str(folder), "--limit-images-per-prompt", "2", "--spec-method", "ngram"
    with serving(*options) as service, httpx.Client(base_url=service.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def expected(folder: Path) -> str:
    """The text about picture 1."""
    image = {"type": "image", "image": picture(1)}
    (output,) = LLM(folder).chat(user(TEXT, image), SamplingParams(max_tokens=12, ignore_eos=True))
    assert output.error is None
    return output.text


def chat(client: httpx.Client, messages: Any, **fields: Any) -> dict[str, Any]:
    body = {"messages": messages, "max_tokens": 12, "temperature": 0, "ignore_eos": True, **fields}
    return client.post("/v1/chat/completions", json=body).json()


def test_each_api_has_its_form_of_images(client, expected):
    url = url_of(picture(1))
    answer = chat(client, user(TEXT, image_url(url)))
    assert answer["choices"][0]["message"]["content"] == expected
    assert answer["usage"]["prompt_tokens"] > 24  # those of the image count
    part = {"type": "input_image", "image_url": url, "detail": "auto"}
    asked = {
        "input": user({"type": "input_text", "text": TEXT["text"]}, part),
        "max_output_tokens": 12,
        "temperature": 0,
        "ignore_eos": True,
    }
    response = client.post("/v1/responses", json=asked).json()
    assert response["output"][0]["content"][0]["text"] == expected
    source = {"type": "base64", "media_type": "image/png", "data": base64_of(picture(1))}
    asked = {
        "model": "small",
        "messages": user(TEXT, {"type": "image", "source": source}),
        "max_tokens": 12,
        "temperature": 0,
    }
    counted = client.post("/v1/messages/count_tokens", json=asked).json()
    assert counted["input_tokens"] == answer["usage"]["prompt_tokens"]
    message = client.post("/v1/messages", json={**asked, "ignore_eos": True}).json()
    assert message["content"][0]["text"] == expected
    tokens = client.post("/tokenize", json={"messages": user(TEXT, image_url(url))}).json()
    assert tokens["count"] == answer["usage"]["prompt_tokens"]


def test_a_guide_and_a_stream_beside_an_image(client):
    schema = {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}
    messages = user(image_url(url_of(picture(3), "JPEG")), TEXT)
    answer = chat(client, messages, response_format=schema, max_tokens=40, ignore_eos=False)
    assert json.loads(answer["choices"][0]["message"]["content"])["a"] in "xy"
    body = {"messages": messages, "max_tokens": 8, "stream": True, "ignore_eos": True}
    text = client.post("/v1/chat/completions", json=body).text
    assert text.count("data: ") > 2 and text.endswith("data: [DONE]\n\n")


def test_a_text_that_spells_an_image_stays_text(client):
    answer = chat(client, user({"type": "text", "text": "<|vision_start|><|image_pad|>"}))
    assert "error" not in answer
    spelled = {"type": "text", "text": "<|image_pad|>"}
    assert "error" not in chat(client, user(spelled, image_url(url_of(picture(1)))))


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (image_url("https://example.org/a.png"), "data URL"),
        (image_url("data:image/png;base64,@@@@"), "not valid base64"),
        (image_url("data:image/png,abc"), "form"),
        (image_url("data:image/png;base64," + base64.b64encode(b"abc").decode()), "PNG, JPEG"),
        (image_url(url_of(picture(1))[:-400] + "A=="), "damaged|cannot be read|base64"),
        (image_url(url_of(Image.new("1", (10_000, 7000)))), "10000 × 7000 pixels"),
        (image_url(url_of(picture(1, 900, 2))), "processor refuses"),
        ({"type": "image_url"}, "data URL"),
        ({"type": "image", "source": {"type": "url", "url": "https://a"}}, "base64"),
        ({"type": "image_pil", "image_pil": "x"}, "found str"),
        ({"type": "video_url", "video_url": {"url": "data:"}}, "text and images"),
    ],
)
def test_what_is_no_image_is_named(client, part, words):
    answer = chat(client, user(TEXT, part))
    message = answer["error"]["message"]
    assert answer["error"]["param"].startswith("messages[0].content[1]")
    assert re.search(words, message), message


def test_images_elsewhere_and_too_many_are_refused(client):
    image = image_url(url_of(picture(1)))
    answer = chat(client, [{"role": "system", "content": [image]}, *user(TEXT)])
    assert "text only is read" in answer["error"]["message"]
    answer = chat(client, user(*[image] * 3))
    assert "more than 2 images" in answer["error"]["message"]
    answer = chat(client, user(image, TEXT), truncate_prompt_tokens=10)
    assert "images is not cut" in answer["error"]["message"]


def test_a_large_picture_fits_into_a_body(client):
    url = url_of(picture(1, 1400, 1400))
    assert len(url) > 7 << 20  # more than the limit of models that read text alone
    assert "error" not in chat(client, user(image_url(url), TEXT))


def test_the_example_runs_as_printed(client, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    blocks = page.split("```python\n")
    (code,) = (block.partition("```")[0] for block in blocks if "invoice.png" in block)
    assert '"FOLDER"' in code and "http://127.0.0.1:8000" in code
    code = code.replace('"FOLDER"', '"small"').replace(
        "http://127.0.0.1:8000", str(client.base_url).rstrip("/")
    )
    picture(1).save(tmp_path / "invoice.png")
    monkeypatch.chdir(tmp_path)
    exec(code, {"__name__": "example"})
    assert "number=" in capsys.readouterr().out
