"""Trains an EAGLE3 draft head for a published model on the model's own answers: one command.

    python -m training.train.published --target FILE.gguf --out FOLDER --minutes 4

The model, a GGUF file or a Hugging Face folder, answers prompts of the project's generators and
those that it writes itself, guided by schemas and free, greedily and sampled; the head learns to
draft these answers, and is measured on left-out kinds. Answers and checkpoint are kept in the run
folder, so the same command goes on where it stopped. --minutes counts the answers too, and
--answer-minutes ends them. The stored head has at most 12 MB for a model of 576 features and 49,152
tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from specguide.inputs.gguf_file import find_gguf
from specguide.models.gguf import gguf_fields, gguf_tensors
from specguide.models.stored_tensors import read
from specguide.tokenizer.gguf import gguf_tokenizer
from training.data.draft_data import Example, read_examples, write_examples
from training.data.published_data import Sizes, answered
from training.data.published_prompts import prompts
from training.evaluate.acceptance import measure
from training.heads.eagle3 import load_head, save_head
from training.train import eagle3
from training.train.head_trainer import (
    EVAL_SEED_OFFSET,
    Trainer,
    example_settings,
    load_target,
)
from training.train.kept_states import KeptTrainer
from training.train.plan import argument_parser


@dataclass(frozen=True)
class TrainPlan(eagle3.TrainPlan):
    """The plan of a training on the model's own answers; num_self_answers has no part in it.

    num_examples: most prompts
    batch:        prompts that a process answers at once
    num_anchors:  anchors of a row that are trained in a step
    """

    num_steps: int = 20_000
    num_rows: int = 32
    num_anchors: int = 224
    row_len: int = 1536
    learning_rate: float = 1e-3
    num_examples: int = 200_000
    prompt_rate: float = 0.0
    text_weight: float = 0.5
    max_answer_len: int = 256
    draft_vocab_size: int = 0
    intermediate_size: int = 1920
    num_key_value_heads: int = 3
    batch: int = 128


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argument_parser(__doc__, TrainPlan(), "training/runs/published")
    parser.add_argument(
        "--answer-minutes",
        type=float,
        default=math.inf,
        help="ask for no more answers to train on after this time",
    )
    parser.add_argument(
        "--answers", type=Path, nargs="*", default=[], help="examples.npz of other runs, used too"
    )
    parser.add_argument("--processes", type=int, default=1, help="that answer at once")
    parser.add_argument("--aux-layers", type=int, nargs=3, help="layers whose input is read")
    return parser.parse_args(argv)


def load_published(place: Path, device: str) -> PreTrainedModel:
    """The frozen target of a GGUF file or a folder, float32."""
    path = find_gguf(place)
    if path is None:
        return load_target(place, device)
    fields = gguf_fields(path)
    model_class: Any = getattr(transformers, fields["architectures"][0])
    model = model_class(model_class.config_class(**fields))
    weights = {name: read(stored) for name, stored in gguf_tensors(path).items()}
    model.load_state_dict(weights, strict=not fields["tie_word_embeddings"])
    model.tie_weights()
    model.generation_config.eos_token_id = fields["eos_token_id"]
    target: PreTrainedModel = model.to(device).eval().requires_grad_(False)
    return target


def load_tokenizer(place: Path) -> Tokenizer:
    path = find_gguf(place)
    if path is None:
        return Tokenizer.from_file(str(place / "tokenizer.json"))
    return gguf_tokenizer(path)[0]


def prepare(
    args: argparse.Namespace, plan: TrainPlan, started: float
) -> tuple[list[Example], list[Example]]:
    """Answers to train on and those of left-out kinds, kept in the run folder."""
    files = args.run / "held_out.npz", args.run / "examples.npz"
    settings = {**example_settings(args.target, plan), "num_eval": args.num_eval}
    if not all(file.exists() for file in files):
        sizes = Sizes(plan.prompt_room, plan.max_answer_len, plan.batch, args.processes)
        groups = (
            partial(prompts, plan.seed + EVAL_SEED_OFFSET, args.num_eval, "left_out"),
            partial(prompts, plan.seed, plan.num_examples),
        )
        found = answered(args.target, groups, sizes, started + 60 * args.answer_minutes)
        for file, examples in zip(files, found, strict=True):
            write_examples(file, examples, settings)
    held_out, trained = (read_examples(file, settings) for file in files)
    return trained + [x for file in args.answers for x in read_examples(file)], held_out


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    args = parse_args(argv)
    plan = TrainPlan(**eagle3.plan_values(args, TrainPlan))
    examples, held_out = prepare(args, plan, started)
    target = load_published(args.target, args.device)
    head = eagle3.first_head(target, load_tokenizer(args.target), plan, examples, args.start)
    kind = KeptTrainer if head.shares_output else Trainer
    trainer = kind(head, target, plan, args.run, lambda: save_head(head, args.out))
    trainer.resume()
    trainer.train(examples, started + 60 * args.minutes)
    output = target.get_output_embeddings().weight.cpu()
    stored = load_head(args.out, output).to(args.device)
    found = asdict(measure(stored, target, held_out, args.num_drafts, plan.row_len))
    found |= {"steps": trainer.step, "examples": len(examples)}
    found |= {"bytes": (args.out / "model.safetensors").stat().st_size}
    (args.run / "eval.json").write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
