"""Pictures: decoded within limits, prepared once, and put where a prompt has their placeholder."""

from __future__ import annotations

import base64
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from vision_folders import VISION_FAMILIES, picture, save_vision

from specguide.errors import CheckpointError, InvalidParams
from specguide.images import PreparedImage
from specguide.models.encoders import ImageEncoder
from specguide.tokenizer import Tokenizer
from specguide.tokenizer.chat_template import ChatTemplate
from specguide.tokenizer.images import ImageParts, ImageReader, decoding, pil_image, reads_images
from specguide.tokenizer.images.decoding import image_of_url, opened, upright


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def decoded_image(data: bytes, param: str) -> Image.Image:
    return upright(opened(data, param), param)


@pytest.mark.parametrize("kind", decoding.FORMATS)
@pytest.mark.parametrize("mode", ["RGB", "L", "1"])
def test_pictures_of_each_format_become_rgb(kind: str, mode: str) -> None:
    image = picture(1).convert(mode)
    made = decoded_image(encoded(image, kind), "image")
    assert made.mode == "RGB" and made.size == image.size
    if kind in ("PNG", "BMP"):
        assert made.tobytes() == image.convert("RGB").tobytes()


def test_what_is_transparent_becomes_white_and_exif_turns_a_picture() -> None:
    clear = Image.new("RGBA", (2, 1), (10, 20, 30, 0))
    clear.putpixel((1, 0), (10, 20, 30, 255))
    made = decoded_image(encoded(clear), "image")
    assert made.tobytes() == bytes([255, 255, 255, 10, 20, 30])
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter
    turned = decoded_image(encoded(picture(1), "JPEG", exif=exif), "image")
    assert turned.size == picture(1).size[::-1]


def test_greys_of_16_bits_keep_their_shades() -> None:
    greys = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    made = decoded_image(encoded(Image.fromarray(greys)), "image")
    assert np.asarray(made)[..., 0].ravel().tolist() == list(range(256))


def test_a_picture_of_pillow_is_read_as_its_file_is() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(picture(1, 300, 200), "JPEG", exif=exif)
    found = pil_image(Image.open(io.BytesIO(data)), "image")
    assert found.size == (200, 300)
    assert found.tobytes() == decoded_image(data, "image").tobytes()
    with pytest.raises(InvalidParams, match="cut off"):
        pil_image(Image.open(io.BytesIO(data[:3000])), "image")


@pytest.mark.parametrize("cut", [0, 1, 8, 40, 300, 3000])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_file_that_is_cut_off_is_refused(kind: str, cut: int) -> None:
    data = encoded(picture(1), kind)
    if cut < len(data) - 16:
        with pytest.raises(InvalidParams, match=r"cannot be read|damaged"):
            decoded_image(data[:cut], "image")


def test_limits_of_bytes_and_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(picture(1))
    monkeypatch.setattr(decoding, "MOST_PIXELS", 50 * 30 - 1)
    with pytest.raises(InvalidParams, match="50 × 30 pixels"):
        decoded_image(data, "image")
    monkeypatch.setattr(decoding, "MOST_BYTES", len(data) - 1)
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    for call in (lambda: decoded_image(data, "image"), lambda: image_of_url(url, "image")):
        with pytest.raises(InvalidParams, match="MiB"):
            call()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> ImageReader:
    folder = tmp_path_factory.mktemp("llava")
    save_vision("Llava", folder)
    made = ImageReader.load(folder, transformers.AutoTokenizer.from_pretrained(folder), 4)
    assert made is not None
    return made


def test_an_image_is_prepared_once_and_the_oldest_are_dropped(reader, monkeypatch) -> None:
    first = reader.prepare(picture(1), "image")
    assert reader.prepare(picture(1), "image") is first
    size = sum(array.nbytes for array in first.arrays.values())
    monkeypatch.setattr("specguide.tokenizer.images.reader._MOST_CACHED", 2 * size)
    second = reader.prepare(picture(2), "image")
    assert reader.prepare(picture(1), "image") is first
    reader.prepare(picture(3), "image")
    assert reader.prepare(picture(1), "image") is first
    assert reader.prepare(picture(2), "image") is not second
    assert second.digest != first.digest


def test_large_pictures_wait_for_one_another_and_small_ones_do_not(reader, monkeypatch) -> None:
    monkeypatch.setattr(decoding, "_LARGE", 100 * 100)
    large, small = picture(8, 100, 100), picture(9, 99, 99)
    parts = ImageParts(reader)
    with decoding.in_turn(large), ThreadPoolExecutor() as threads:
        assert parts.mark_of({"type": "image", "image": small}, "image")
        waiting = threads.submit(parts.mark_of, {"type": "image", "image": large}, "image")
        sleep(0.05)
        assert not waiting.done()
        decoding._turn.release()
        assert waiting.result(10)
        decoding._turn.acquire()
    assert [one.digest for one in parts.images] == [
        reader.prepare(one, "image").digest for one in (small, large)
    ]


def test_images_stand_where_the_prompt_has_their_placeholder(reader) -> None:
    images = [reader.prepare(picture(seed), "image") for seed in (1, 2)]
    made = reader.prompt_ids([1, reader.token_id, 2, reader.token_id], images)
    num = len(images[0].token_ids)
    assert tuple(made) == (1, *images[0].token_ids, 2, *images[1].token_ids)
    assert [(one.start, one.image) for one in made.images] == [(1, images[0]), (num + 2, images[1])]
    with pytest.raises(InvalidParams, match="0 places for images and 2 images"):
        reader.prompt_ids([1, 2], images)


def test_internvl_cuts_a_wide_picture_into_tiles_whatever_its_folder_says(tmp_path: Path) -> None:
    """As transformers' processor does, which overrides what published folders state."""
    save_vision("InternVL", tmp_path)
    own = ImageReader.load(tmp_path, transformers.AutoTokenizer.from_pretrained(tmp_path), 4)
    assert own is not None
    image = own.prepare(picture(1, 200, 100), "image")
    assert len(image.arrays["pixel_values"]) == 3  # two tiles, and the whole
    assert len(image.places) == 3 * 4


def test_a_tower_of_pixtral_has_a_token_behind_each_row(tmp_path: Path) -> None:
    save_vision("Llava of Pixtral", tmp_path)
    chat = transformers.AutoTokenizer.from_pretrained(tmp_path)
    own = ImageReader.load(tmp_path, chat, 4)
    assert own is not None
    image = own.prepare(picture(1, 50, 30), "image")
    assert image.arrays["image_sizes"].tolist() == [[32, 52]]  # whole patches of 4
    row = "[IMG]" * 13
    wanted = "[IMG_BREAK]".join([row] * 8) + "[IMG_END]"
    assert "".join(chat.convert_ids_to_tokens(list(image.token_ids))) == wanted


def test_folders_that_do_not_say_how_images_are_prepared(tmp_path: Path) -> None:
    save_vision("Llava", tmp_path)
    assert reads_images(tmp_path)
    settings = tmp_path / "preprocessor_config.json"
    settings.write_text("{")
    with pytest.raises(CheckpointError, match="image processor cannot be read"):
        ImageReader.load(tmp_path, transformers.AutoTokenizer.from_pretrained(tmp_path), 4)
    settings.unlink()
    assert not reads_images(tmp_path)


@pytest.mark.parametrize("name", VISION_FAMILIES)
def test_an_encoder_makes_a_vector_for_each_place(name: str, tmp_path: Path) -> None:
    model = save_vision(name, tmp_path)
    own = ImageReader.load(tmp_path, transformers.AutoTokenizer.from_pretrained(tmp_path), 4)
    assert own is not None
    encoder = ImageEncoder.load(tmp_path, torch.device("cpu"), torch.float32)
    images = [own.prepare(picture(1, *size), "image") for size in ((50, 30), (20, 61))]
    for image, vectors in zip(images, encoder.encode(images), strict=True):
        assert vectors.shape == (len(image.places), (1 + encoder.num_deep) * 64)
        arrays = {key: torch.as_tensor(array) for key, array in image.arrays.items()}
        with torch.inference_mode():
            found = model.model.get_image_features(**arrays, return_dict=True).pooler_output
        wanted = found if isinstance(found, torch.Tensor) else torch.cat(list(found))
        torch.testing.assert_close(vectors[:, :64], wanted.reshape(-1, 64), atol=1e-5, rtol=1e-5)
    other = PreparedImage(image.digest, image.arrays, image.token_ids, image.places[1:])
    with pytest.raises(Exception, match="processor and encoder do not fit"):
        encoder.encode([other])


@pytest.mark.parametrize("name", ["Qwen3VL", "Mistral3"])
def test_pixels_of_bfloat16_are_those_that_an_encoder_rounds(name: str, tmp_path: Path) -> None:
    save_vision(name, tmp_path)
    chat = transformers.AutoTokenizer.from_pretrained(tmp_path)
    encoder = ImageEncoder.load(tmp_path, torch.device("cpu"), torch.bfloat16)
    vectors = []
    for dtype in ("float32", "bfloat16"):
        own = ImageReader.load(tmp_path, chat, 4, dtype)
        assert own is not None
        image = own.prepare(picture(1), "image")
        assert image.arrays["pixel_values"].itemsize == (4 if dtype == "float32" else 2)
        vectors += encoder.encode([image])
    assert torch.equal(*vectors)


def test_an_encoder_without_one_of_its_tensors(tmp_path: Path) -> None:
    save_vision("Mistral3", tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if "vision_tower" in name and "proj" in name)
    save_file({key: it for key, it in tensors.items() if key != name}, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match="is missing"):
        ImageEncoder.load(tmp_path, torch.device("cpu"), torch.float32)
    wrong = {**tensors, name: tensors[name][:-1].contiguous()}
    save_file(wrong, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match="another shape"):
        ImageEncoder.load(tmp_path, torch.device("cpu"), torch.float32)
    save_file({**tensors, f"{name}_scale_inv": torch.ones(1)}, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match="quantized encoders are not supported"):
        ImageEncoder.load(tmp_path, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize(
    ("name", "other_names"),
    [
        ("Qwen2_5_VL", {"visual.": "model.visual.", "model.": "model.language_model."}),
        (
            "Llava",
            {
                "language_model.model.": "model.language_model.",
                "language_model.lm_head.": "lm_head.",
                "vision_tower.": "model.vision_tower.",
                "multi": "model.multi",
            },
        ),
        ("Llava", {"vision_tower.": "vision_tower.vision_model."}),
        ("Qwen3_5", {}),
    ],
)
def test_tensors_of_other_layouts_and_of_mtp_layers(
    name: str, other_names: dict[str, str], tmp_path: Path
) -> None:
    save_vision(name, tmp_path)
    wanted = ImageEncoder.load(tmp_path, torch.device("cpu"), torch.float32)._model.state_dict()
    path = tmp_path / "model.safetensors"
    tensors = {"mtp.layers.0.self_attn.q_proj.weight": torch.zeros(2, 2)}
    for key, tensor in load_file(path).items():
        new = next((new for new in other_names if key.startswith(new)), "")
        tensors[other_names.get(new, "") + key.removeprefix(new)] = tensor
    save_file(tensors, path, {"format": "pt"})
    found = ImageEncoder.load(tmp_path, torch.device("cpu"), torch.float32)._model.state_dict()
    assert wanted.keys() == found.keys()
    assert all(torch.equal(found[key], tensor) for key, tensor in wanted.items())


def test_a_template_that_writes_only_parts_gets_texts_as_parts() -> None:
    """Such a template of a published model drops texts, without a word."""
    text = (
        "{% for message in messages %}{{ message.role }}:"
        "{% for part in message.content | selectattr('type', 'equalto', 'text') %}"
        "{{ part.text }}{% endfor %}{% endfor %}"
    )
    chat = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_folder("specguide/assets/small/target")._backend
    )
    chat.chat_template = text
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "well"}]
    assert ChatTemplate(chat).render({"messages": messages}) == "user:helloassistant:well"
