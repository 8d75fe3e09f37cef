"""Models that read images: outputs are those of transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad
from vision_folders import VISION_FAMILIES, picture, save_vision

from specguide import LLM, SamplingParams
from specguide.config import SpecConfig
from specguide.errors import CheckpointError
from specguide.images import PromptIds
from specguide.layers import rope
from specguide.tokenizer.contents import plain_messages

PARAMS = SamplingParams(max_tokens=16, ignore_eos=True)
MESSAGES = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is "},
            {"type": "image", "image": picture(1)},
            {"type": "text", "text": " beside "},
            {"type": "image_pil", "image_pil": picture(2, 30, 70)},
            {"type": "text", "text": "?"},
        ],
    }
]


def prompt_of(llm: LLM, messages: Any) -> PromptIds:
    images = llm.tokenizer.image_parts()
    assert images is not None
    texts = plain_messages(messages, images)
    return images.prompt_ids(llm.tokenizer.apply_chat_template(texts, images=images))


def together(name: str, arrays: list[np.ndarray]) -> Tensor:
    """The arrays of several images, as a processor of transformers puts them together."""
    tensors = [torch.as_tensor(array) for array in arrays]
    if name in ("Idefics3", "SmolVLM"):  # the tiles of one prompt
        return torch.cat(tensors, 1)
    sizes = [max(sizes) for sizes in zip(*(one.shape[1:] for one in tensors), strict=True)]
    if name.startswith("Qwen"):
        sizes = list(tensors[0].shape[1:])
    return torch.cat(
        [
            pad(
                one,
                [
                    n
                    for want, have in zip(sizes[::-1], one.shape[:0:-1], strict=True)
                    for n in (0, want - have)
                ],
            )
            for one in tensors
        ]
    )


@torch.inference_mode()
def expected(name: str, model: Any, prompt: PromptIds) -> list[int]:
    ids = torch.tensor([list(prompt)])
    names = prompt.images[0].image.arrays
    arrays = {
        array: together(name, [image.arrays[array] for _, image in prompt.images])
        for array in names
    }
    if name.startswith("Qwen"):
        arrays["mm_token_type_ids"] = (ids == model.config.image_token_id).long()
    answer = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=PARAMS.max_tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        **arrays,
    )
    return answer[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize("name", VISION_FAMILIES)
def test_an_answer_about_two_images_is_that_of_transformers(name, tmp_path):
    model = save_vision(name, tmp_path)
    llm = LLM(tmp_path, max_prefill_tokens=48, spec=SpecConfig("ngram"))
    prompt = prompt_of(llm, MESSAGES)
    assert len(prompt.images) == 2
    wanted = expected(name, model, prompt)
    (answer,) = llm.chat([MESSAGES], PARAMS)
    assert answer.error is None and list(answer.token_ids) == wanted
    (again,) = llm.chat([MESSAGES], PARAMS)  # most of the prompt is cached
    assert again.token_ids == answer.token_ids
    assert again.metrics.num_cached > 0 or name.startswith("Qwen3_5")  # short, with states
    (text,) = llm.generate({"prompt_token_ids": list(prompt)}, PARAMS)
    assert text.token_ids != answer.token_ids  # the images count
    llm.close()


def test_positions_in_two_directions_count(tmp_path, monkeypatch):
    save_vision("Qwen2_5_VL", tmp_path)
    llm = LLM(tmp_path)
    (answer,) = llm.chat([MESSAGES], PARAMS)
    monkeypatch.setattr(rope, "axis_of_dims", lambda *_: torch.zeros(16, dtype=torch.int64))
    monkeypatch.setattr("specguide.models.rope_tables.axis_of_dims", rope.axis_of_dims)
    (other,) = LLM(tmp_path).chat([MESSAGES], PARAMS)
    assert answer.token_ids != other.token_ids


def test_a_text_with_images_in_a_dict(tmp_path):
    save_vision("Llava", tmp_path)
    llm = LLM(tmp_path)
    pictures = [picture(1), picture(2)]
    (both,) = llm.generate(
        {"prompt": "<image>\nand <image>: ", "multi_modal_data": {"image": pictures}}, PARAMS
    )
    (one,) = llm.generate({"prompt": "<image>", "multi_modal_data": {"image": picture(1)}}, PARAMS)
    assert both.error is None and one.error is None
    for given, message in (
        ({"image": pictures}, "1 places for images and 2 images"),
        ({"image": "x.png"}, "found str"),
        ({"video": pictures}, "a PIL image or a list"),
    ):
        (refused,) = llm.generate({"prompt": "<image>", "multi_modal_data": given}, PARAMS)
        assert message in str(refused.error)


def test_without_memory_for_images_only_text_is_read(tmp_path):
    save_vision("Llava", tmp_path)
    with pytest.warns(UserWarning, match="only the text model"):
        llm = LLM(tmp_path, max_image_tokens=0)
    (refused,) = llm.chat([MESSAGES], PARAMS)
    assert "text only is read" in str(refused.error)


def test_too_many_images_are_refused_and_the_neighbour_is_served(tmp_path):
    save_vision("Llava", tmp_path)
    llm = LLM(tmp_path, limit_images_per_prompt=1, max_image_tokens=20)
    one = [{"role": "user", "content": [{"type": "image", "image": picture(1)}]}]
    refused, served = llm.chat([MESSAGES, one], PARAMS)
    assert "more than 1 images" in str(refused.error) and served.error is None


def test_two_ranks_read_the_images_of_one(tmp_path):
    save_vision("Qwen3VL", tmp_path)
    answers = []
    for size in (1, 2):
        llm = LLM(tmp_path, tensor_parallel_size=size)
        (answer,) = llm.chat([MESSAGES], PARAMS)
        assert answer.error is None
        answers.append(answer.token_ids)
        llm.close()
    assert answers[0] == answers[1]


def test_stages_of_a_pipeline_read_text_only(tmp_path):
    save_vision("Llava", tmp_path)
    llm = LLM(tmp_path, pipeline_parallel_size=2)
    (refused,) = llm.chat([MESSAGES], PARAMS)
    assert "text only is read" in str(refused.error)
    (text,) = llm.generate("abc", PARAMS)
    assert text.error is None
    llm.close()


def test_a_processor_that_does_not_fit_its_encoder_is_told_at_the_start(tmp_path):
    save_vision("Llava", tmp_path)
    (tmp_path / "processor_config.json").write_text('{"num_additional_image_tokens": 3}')
    with pytest.raises(CheckpointError, match="processor and encoder do not fit"):
        LLM(tmp_path)


def test_a_placeholder_without_an_image_is_a_token_where_these_are_allowed(tmp_path):
    save_vision("Llava", tmp_path)
    llm = LLM(tmp_path)
    message = [{"role": "user", "content": "<image>"}]
    for allowed in (True, False):
        (output,) = llm.chat([message], PARAMS, allow_special_tokens=allowed)
        assert output.error is None
