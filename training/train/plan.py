"""Owns TrainPlan, what decides the trained weights of any draft head, and its options."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from training.counts import one_or_more


@dataclass(frozen=True)
class TrainPlan:
    """Everything that decides the trained weights of any head; sizes in tokens, rows, examples or
    steps. text_weight: as in `unroll_loss`"""

    seed: int = 0
    num_steps: int = 3000
    num_rows: int = 32
    row_len: int = 2048
    prompt_rate: float = 0.05
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    unroll_steps: int = 5
    text_weight: float = 0.0
    num_examples: int = 100_000
    num_self_answers: int = 12_000
    max_answer_len: int = 320

    @property
    def prompt_room(self) -> int:
        """Tokens of a row before the longest answer. Exits where there are none."""
        if self.row_len <= self.max_answer_len:
            sys.exit(
                f"--row-len {self.row_len} has no room for a prompt before an answer of "
                f"--max-answer-len {self.max_answer_len}: give longer rows or shorter answers"
            )
        return self.row_len - self.max_answer_len


def argument_parser(doc: str | None, plan: TrainPlan, run: str) -> argparse.ArgumentParser:
    """A parser of what every head's command takes: the folders, the limits, and each number of the
    plan under its own name. doc: the command's docstring, its help"""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target", type=Path, required=True, help="folder of the target, with its tokenizer"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the head: config.json, model.safetensors"
    )
    parser.add_argument("--run", type=Path, default=Path(run), help="folder of the checkpoint")
    parser.add_argument(
        "--from", type=Path, dest="start", help="folder of the head that a new run begins with"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="end training, with its decay completed, at the latest after this time",
    )
    parser.add_argument(
        "--num-eval", type=one_or_more, default=600, help="fresh prompts of each sort to measure on"
    )
    parser.add_argument("--num-drafts", type=int, default=3, help="K of the simulated chain")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in asdict(plan).items():
        if isinstance(value, int | float):
            parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    return parser


def learning_rate(plan: TrainPlan, step: int, progress: float) -> float:
    """Linear warm-up, then a cosine down to a fiftieth. progress: how much of the run is over, from
    0 to 1"""
    warm = min(1.0, (step + 1) / max(1, plan.warmup_steps))
    return (
        plan.learning_rate * warm * (0.02 + 0.98 * (1 + math.cos(math.pi * min(progress, 1.0))) / 2)
    )
