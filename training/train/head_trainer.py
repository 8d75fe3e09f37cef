"""Owns the training of any draft head over a frozen target: examples, schedule, resumable loop,
measurement."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm
from transformers import AutoModelForCausalLM, PreTrainedModel

from training.data.draft_data import (
    Example,
    PackPlan,
    answer_greedily,
    batches,
    make_examples,
    read_examples,
    with_opening,
    write_examples,
)
from training.evaluate.acceptance import measure, tap
from training.heads.eagle3 import Eagle3Head
from training.heads.mtp import MtpHead
from training.heads.unroll import unroll, unroll_loss
from training.train.plan import TrainPlan, learning_rate

EVAL_SEED_OFFSET = 1_000_003
# cuDNN's attention builds a plan for every new shape, and packed batches have many.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
Head = Eagle3Head | MtpHead


def shared_shape(target: PreTrainedModel) -> dict[str, Any]:
    """What every head's HeadConfig takes from the target: its width, heads' size, vocabulary,
    positions, marks."""
    c = target.config
    rope: dict[str, Any] = getattr(c, "rope_parameters", None) or {}
    return dict(
        hidden_size=c.hidden_size,
        num_attention_heads=c.num_attention_heads,
        head_dim=getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads,
        vocab_size=c.vocab_size,
        rms_norm_eps=c.rms_norm_eps,
        rope_theta=float(rope.get("rope_theta", 10000.0)),
        max_position_embeddings=c.max_position_embeddings,
        bos_token_id=c.bos_token_id,
        eos_token_id=end_ids(target)[0],
    )


def random_weights(head: nn.Module, seed: int) -> None:
    """Small random matrices, the two that end in the residual stream smaller still."""
    torch.manual_seed(seed)
    for name, weight in head.named_parameters():
        if weight.dim() == 2:
            spread = 1 / math.sqrt(weight.shape[1])
            nn.init.normal_(
                weight, std=spread * (0.3 if "o_proj" in name or "down_proj" in name else 1.0)
            )
        elif name.endswith("bias"):
            nn.init.zeros_(weight)


def load_target(folder: Path, device: str) -> PreTrainedModel:
    """The frozen target, float32. Raises ValueError for a target that the head cannot be laid
    over."""
    target = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, trust_remote_code=False
    )
    target.to(device).eval().requires_grad_(False)  # type: ignore[arg-type]
    scaling = (getattr(target.config, "rope_parameters", None) or {}).get("rope_type", "default")
    if scaling != "default":
        raise ValueError(
            f"{folder}: rope scaling {scaling!r} is not supported for a draft head's positions"
        )
    return target


def end_ids(target: PreTrainedModel) -> list[int]:
    """The tokens that end an answer, from generation_config.json."""
    ids = target.generation_config.eos_token_id
    return list(ids) if isinstance(ids, (list, tuple)) else [ids]


@contextmanager
def fast_passes(device: torch.device) -> Iterator[None]:
    """Inside, a GPU computes in bfloat16, and attention by kernels that take any shape at once."""
    on_gpu = device.type == "cuda"
    with sdpa_kernel(ATTENTION), torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
        yield


class Trainer:
    """Owns the head, the optimizer and the step number; `checkpoint` and `resume` keep all
    three. store: called at each checkpoint, to store the head as it is"""

    def __init__(
        self,
        head: Head,
        target: PreTrainedModel,
        plan: TrainPlan,
        run: Path,
        store: Callable[[], None] = lambda: None,
    ) -> None:
        self.head, self.target, self.plan = head, target, plan
        self.file = run / "checkpoint.pt"
        self.store = store
        self.optimizer = torch.optim.AdamW(
            head.parameters(),
            lr=plan.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=0.01,
            fused=target.device.type == "cuda",
        )
        self.step = 0

    def resume(self) -> None:
        """Go on from the run folder's checkpoint, if there is one. Raises ValueError when its plan
        differs."""
        if not self.file.exists():
            return
        state = torch.load(self.file, map_location=self.target.device, weights_only=True)
        if state["plan"] != json.dumps(asdict(self.plan)):
            raise ValueError(
                f"{self.file} is of a run with other settings; name another --run or delete it"
            )
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def checkpoint(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        torch.save(
            {
                "plan": json.dumps(asdict(self.plan)),
                "head": self.head.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
            },
            partial,
        )
        partial.replace(self.file)
        self.store()

    def train_step(self, batch: Any, progress: float) -> Tensor:
        """One optimizer step at that progress of the run, from 0 to 1; the loss, on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.plan, self.step, progress)
        with fast_passes(self.target.device):
            loss = self.loss(batch)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    def loss(self, batch: Any) -> Tensor:
        """The loss on one of `batches`; the target is asked for its states."""
        batch = batch.to(self.target.device)
        aux, target_logits = tap(self.target, batch, self.head.config.aux_layers)
        embedding = self.target.get_input_embeddings().weight
        logits = unroll(self.head, aux, embedding, batch, self.plan.unroll_steps)
        return unroll_loss(self.head, logits, target_logits, batch, self.plan.text_weight)

    def batches(self, examples: list[Example]) -> Iterator[Any]:
        """Batches without end, from the step number on."""
        pack = PackPlan(self.plan.row_len, self.plan.num_rows, self.plan.prompt_rate)
        return batches(examples, pack, self.plan.seed, start=self.step)

    def train(self, examples: list[Example], until: float = math.inf) -> None:
        """Train up to the plan's last step or the monotonic time `until`. The schedule is as far as
        the steps or the time, whichever is further, so that both ends find it decayed."""
        made = self.batches(examples)  # may take a while, which is no part of the schedule
        begun = time.monotonic()
        with tqdm(
            total=self.plan.num_steps, initial=self.step, desc="training", unit="step"
        ) as bar:
            for batch in made:
                now = time.monotonic()
                if self.step >= self.plan.num_steps or now >= until:
                    break
                loss = self.train_step(
                    batch, max(self.step / self.plan.num_steps, (now - begun) / (until - begun))
                )
                bar.update()
                if self.step % 25 == 0:
                    bar.set_postfix(loss=f"{loss.item():.3f}")
                if self.step % 500 == 0:
                    self.checkpoint()
        self.checkpoint()


def example_settings(target: Path | str, plan: TrainPlan) -> dict[str, object]:
    """What kept examples depend on: the target and a part of the plan."""
    names = ("seed", "num_examples", "num_self_answers", "row_len", "max_answer_len")
    return {"target": str(target), **{name: getattr(plan, name) for name in names}}


def prepare_examples(
    target: PreTrainedModel, tokenizer: Tokenizer, plan: TrainPlan, run: Path
) -> list[Example]:
    """The training examples: of the first `num_self_answers`, those with room for it are answered
    by the target in the data's style; the others keep the data's answer. Kept in the run folder, so
    that a resumed run does not make them again."""
    file = run / "examples.npz"
    settings = example_settings(target.name_or_path, plan)
    if file.exists():
        return read_examples(file, settings)
    room = plan.prompt_room
    examples = make_examples(tokenizer, plan.seed, plan.num_examples, plan.row_len)
    asked = [
        with_opening(tokenizer, x)
        for x in examples[: plan.num_self_answers]
        if x.prompt_len <= room
    ]
    kept = [x for x in examples[: plan.num_self_answers] if x.prompt_len > room] + examples[
        plan.num_self_answers :
    ]
    answered = answer_greedily(target, asked, end_ids(target), plan.max_answer_len)
    same = sum(x.ids.tolist() == y.ids.tolist() for x, y in zip(asked, answered, strict=True))
    print(f"the target answers {same} of {len(asked)} training prompts exactly as the data does")
    write_examples(file, answered + kept, settings)
    return answered + kept


def evaluate(
    head: Head,
    target: PreTrainedModel,
    tokenizer: Tokenizer,
    plan: TrainPlan,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Acceptance on fresh prompts of another seed that the target answers greedily, by split of the
    task mixture and by the style of the answers' JSON."""
    seed = plan.seed + EVAL_SEED_OFFSET
    result: dict[str, Any] = {
        "num_drafts": args.num_drafts,
        "num_prompts": args.num_eval,
        "seed": seed,
    }
    for split, (style, compact_share) in product(
        ("known", "left_out"), (("spaced", 0.0), ("compact", 1.0))
    ):
        fresh = make_examples(
            tokenizer, seed, args.num_eval, plan.prompt_room, split, compact_share
        )
        asked = [with_opening(tokenizer, x) for x in fresh]
        answered = answer_greedily(target, asked, end_ids(target), plan.max_answer_len)
        result[f"{split}, {style}"] = asdict(
            measure(head, target, answered, args.num_drafts, plan.row_len)
        )
    return result


def finish(trainer: Trainer, head: Head, tokenizer: Tokenizer, args: argparse.Namespace) -> None:
    """Measure the stored head and write the figures into the run folder."""
    result = evaluate(head, trainer.target, tokenizer, trainer.plan, args) | {"steps": trainer.step}
    (args.run / "eval.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))
