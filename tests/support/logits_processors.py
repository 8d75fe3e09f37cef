"""Logits processors of users: good ones and bad ones."""

from __future__ import annotations

import torch
from adjusted_requests import mixed


def no_repeat(output_ids, logits):
    """Nothing comes that was among the last few."""
    logits[output_ids[-4:]] = -torch.inf
    return logits


def alternate(output_ids, logits):
    """Lifts even tokens at even places and odd ones at odd places, in a tensor of its own."""
    lifted = logits.clone()
    lifted[len(output_ids) % 2 :: 2] += 1.5
    return lifted


def echo(prompt_ids, output_ids, logits):
    """Lifts the prompt's tokens, and most of all the one that followed the last token there."""
    logits[prompt_ids] += 1
    if output_ids and output_ids[-1] in prompt_ids[:-1]:
        logits[prompt_ids[prompt_ids.index(output_ids[-1]) + 1]] += 3
    return logits


class Cooler(torch.nn.Module):
    """A module, whose call takes anything; the more tokens, the flatter."""

    def forward(self, output_ids, logits):
        return logits / (1 + 0.05 * len(output_ids))


PROCESSORS = {
    "no repeat": [no_repeat],
    "alternate": [alternate],
    "prompt": [echo],
    "several": [echo, no_repeat, Cooler(), alternate],
}


def processed(name: str, seed: int, num: int, **params):
    """Every second request of `mixed` with processors."""
    return mixed(seed, num, dict(logits_processors=PROCESSORS[name]), **params)


def fails_after(num_tokens: int, how):
    """As it is, and from the given length of output on `how(logits)`."""
    return lambda output_ids, logits: logits if len(output_ids) < num_tokens else how(logits)


def raises(logits):
    raise KeyError("nobody home")
