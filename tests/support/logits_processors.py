"""Logits processors as users write them, some of which fail."""

from __future__ import annotations

import torch
from adjusted_requests import mixed


def no_repeat(output_ids, logits):
    """Forbids the last few tokens."""
    logits[output_ids[-4:]] = -torch.inf
    return logits


def alternate(output_ids, logits):
    """Lifts even tokens at even places and odd tokens at odd places, in a new tensor."""
    lifted = logits.clone()
    lifted[len(output_ids) % 2 :: 2] += 1.5
    return lifted


def echo(prompt_ids, output_ids, logits):
    """Lifts the prompt's tokens, most of all the one that follows the last output token there."""
    logits[prompt_ids] += 1
    if output_ids and output_ids[-1] in prompt_ids[:-1]:
        logits[prompt_ids[prompt_ids.index(output_ids[-1]) + 1]] += 3
    return logits


class Cooler(torch.nn.Module):
    """A module, whose call takes any arguments; logits become flatter with each token."""

    def forward(self, output_ids, logits):
        return logits / (1 + 0.05 * len(output_ids))


PROCESSORS = {
    "no repeat": [no_repeat],
    "alternate": [alternate],
    "prompt": [echo],
    "several": [echo, no_repeat, Cooler(), alternate],
}


def processed(name: str, seed: int, num: int, **params):
    """The requests of `mixed`, every second one with processors."""
    return mixed(seed, num, dict(logits_processors=PROCESSORS[name]), **params)


def fails_after(num_tokens: int, how):
    """A processor that leaves logits unchanged until the output has `num_tokens`, then returns
    `how(logits)`."""
    return lambda output_ids, logits: logits if len(output_ids) < num_tokens else how(logits)


def raises(logits):
    raise KeyError("nobody home")
