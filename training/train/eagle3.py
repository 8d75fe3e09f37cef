"""Trains an EAGLE3 draft head for a target, by training-time test (EAGLE-3, arXiv 2503.01840): one
command.

    python -m training.train.eagle3 --target specguide/assets/small/target --out
    specguide/assets/small/eagle3

Everything random follows from --seed. The run folder holds a checkpoint; the same command goes on
where it stopped. A new run may begin with the weights of a head (--from), and end, decayed, in a
given time (--minutes). At the end the head is measured on fresh prompts that the target answers
greedily.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel

from training.data.draft_data import Example, choose_draft_ids
from training.heads.eagle3 import Eagle3Head, HeadConfig, load_head, save_head
from training.train import plan as plans
from training.train.head_trainer import (
    Trainer,
    end_ids,
    finish,
    load_target,
    prepare_examples,
    random_weights,
    shared_shape,
)


@dataclass(frozen=True)
class TrainPlan(plans.TrainPlan):
    """The plan of the training, with the shape of the head.

    aux_layers:       None reads the inputs of layers 2, n//2 and n-1 (of 0 … n-1)
    draft_vocab_size: 0 drafts every token, with the target's own output matrix
    """

    draft_vocab_size: int = 3072
    intermediate_size: int = 704
    num_key_value_heads: int = 4
    aux_layers: tuple[int, int, int] | None = None


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = plans.argument_parser(__doc__, TrainPlan(), "training/runs/eagle3")
    parser.add_argument(
        "--aux-layers", type=int, nargs=3, help="target layers whose input is tapped"
    )
    return parser.parse_args(argv)


def plan_values(args: argparse.Namespace, plan: type[TrainPlan]) -> dict[str, Any]:
    """What a plan's fields were given as."""
    values = {name: getattr(args, name) for name in plan.__dataclass_fields__}
    values["aux_layers"] = tuple(values["aux_layers"]) if values["aux_layers"] else None
    return values


def new_head(target: PreTrainedModel, plan: TrainPlan, draft_ids: Tensor) -> Eagle3Head:
    """A head that begins with the target's own output rows and final norm, small random weights
    elsewhere. With a draft_vocab_size of 0 the output matrix stays the target's."""
    n = target.config.num_hidden_layers
    shares_output = plan.draft_vocab_size == 0
    output = target.get_output_embeddings().weight.detach()
    head = Eagle3Head(
        HeadConfig(
            **shared_shape(target),
            intermediate_size=plan.intermediate_size,
            num_key_value_heads=plan.num_key_value_heads,
            draft_vocab_size=len(draft_ids),
            aux_layers=plan.aux_layers or (min(2, n - 1), n // 2, n - 1),
        ),
        draft_ids,
        output.cpu() if shares_output else None,
    )
    random_weights(head, plan.seed)
    with torch.no_grad():
        if not shares_output:
            head.lm_head.weight.copy_(output[draft_ids.to(target.device)])
        head.norm.weight.copy_(target.model.norm.weight)
    return head.to(target.device)


def first_head(
    target: PreTrainedModel,
    tokenizer: Tokenizer,
    plan: TrainPlan,
    examples: list[Example],
    start: Path | None,
) -> Eagle3Head:
    """The head that training begins with: the one of the folder `start`, whose draft vocabulary
    stays, or a new one."""
    if start is not None:
        return load_head(start, target.get_output_embeddings().weight.cpu()).to(target.device)
    if plan.draft_vocab_size == 0:
        return new_head(target, plan, torch.arange(target.config.vocab_size))
    draft_ids, coverage = choose_draft_ids(
        examples, tokenizer, plan.draft_vocab_size, end_ids(target)
    )
    print(f"{len(examples)} examples; the draft vocabulary covers {coverage:.2%} of answer tokens")
    return new_head(target, plan, draft_ids)


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    args = parse_args(argv)
    plan = TrainPlan(**plan_values(args, TrainPlan))
    target = load_target(args.target, args.device)
    tokenizer = Tokenizer.from_file(str(args.target / "tokenizer.json"))
    examples = prepare_examples(target, tokenizer, plan, args.run)
    head = first_head(target, tokenizer, plan, examples, args.start)
    trainer = Trainer(head, target, plan, args.run)
    trainer.resume()
    trainer.train(examples, started + 60 * args.minutes)
    save_head(head, args.out)
    finish(trainer, load_head(args.out).to(args.device), tokenizer, args)


if __name__ == "__main__":
    main()
