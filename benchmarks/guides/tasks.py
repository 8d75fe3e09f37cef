"""Owns tasks of the training generator that the shipped model was never trained on."""

from __future__ import annotations

from specguide.tokenizer import Tokenizer
from training.data import chat
from training.data.groups import SAMPLERS, samples_of


def fresh_tasks(num_each: int, seed: int = 4242) -> list[chat.Task]:
    """Tasks of each group; most have a schema."""
    return [task for group in SAMPLERS for task in samples_of(group, seed, num_each)]


def prompt_of(task: chat.Task, tokenizer: Tokenizer) -> list[int]:
    """Token ids, as the shipped model was taught to read them."""
    return tokenizer.encode(chat.render_prompt(task), add_special_tokens=False)
