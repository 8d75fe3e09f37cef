"""Trains a multi-token-prediction head for a target, its one module unrolled over its own output:
one command.

    python -m training.train.mtp --target specguide/assets/small/target --out
    specguide/assets/small/mtp

Everything random follows from --seed. The run folder holds a checkpoint; the same command goes on
where it stopped. A new run may begin with the weights of a head (--from), and end, decayed, in a
given time (--minutes). At the end the head is measured on fresh prompts that the target answers
greedily.
"""

from __future__ import annotations

import argparse
import time

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from training.heads.head_layers import HeadConfig
from training.heads.mtp import MtpHead, load_head, save_head
from training.train.head_trainer import (
    Trainer,
    finish,
    load_target,
    prepare_examples,
    random_weights,
    shared_shape,
)
from training.train.plan import TrainPlan, argument_parser


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    return argument_parser(__doc__, TrainPlan(), "training/runs/mtp").parse_args(argv)


def new_head(target: PreTrainedModel, plan: TrainPlan) -> MtpHead:
    """A head of the shape of the target's layers. It begins by passing the target's hidden state
    through."""
    c = target.config
    output = target.get_output_embeddings().weight.detach()
    head = MtpHead(
        HeadConfig(
            **shared_shape(target),
            intermediate_size=c.intermediate_size,
            num_key_value_heads=c.num_key_value_heads,
            draft_vocab_size=c.vocab_size,
            aux_layers=(c.num_hidden_layers,),
        ),
        output,
    )
    random_weights(head, plan.seed)
    with torch.no_grad():
        head.input_proj.weight[:, : c.hidden_size] += torch.eye(c.hidden_size)
        head.final_layernorm.weight.copy_(target.model.norm.weight)
    return head.to(target.device)


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    args = parse_args(argv)
    plan = TrainPlan(**{name: getattr(args, name) for name in TrainPlan.__dataclass_fields__})
    target = load_target(args.target, args.device)
    tokenizer = Tokenizer.from_file(str(args.target / "tokenizer.json"))
    examples = prepare_examples(target, tokenizer, plan, args.run)
    output = target.get_output_embeddings().weight
    head = load_head(args.start, output) if args.start else new_head(target, plan)
    trainer = Trainer(head, target, plan, args.run)
    trainer.resume()
    trainer.train(examples, started + 60 * args.minutes)
    save_head(head, args.out)
    finish(trainer, load_head(args.out, output), tokenizer, args)


if __name__ == "__main__":
    main()
