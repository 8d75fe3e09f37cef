"""Trains the shipped target model. One command, resumable, seeded:

    python -m training.train.target --out specguide/assets/small/target --run training/runs/target
    --steps 30000

The folder --out must hold the tokenizer (training.train.tokenizer). A checkpoint (weights,
optimizer, next row) goes to --run; the same command goes on from there. A new run may begin with
the weights of a model folder:

    python -m training.train.target --from specguide/assets/small/target --out … --run … --minutes 4
    --seed 2
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_model
from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from training.data import chat
from training.data.data_stream import MAX_DOCUMENT, Batch, RowSource, batches
from training.heads import packed_attention
from training.train.optimizer import MasterOptimizer, training_dtype


def model_config(tokenizer: Tokenizer) -> LlamaConfig:
    """About 9.4 million parameters: depth and heads for looking up and copying, tied embeddings to
    save room."""
    return LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=256,
        intermediate_size=576,
        num_hidden_layers=10,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=0.02,
        use_cache=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=tokenizer.token_to_id(chat.BEGIN),
        eos_token_id=tokenizer.token_to_id(chat.END),
        pad_token_id=tokenizer.token_to_id(chat.PAD),
    )


def build_model(tokenizer: Tokenizer, start: Path | None, device: torch.device) -> LlamaForCausalLM:
    """A new model, in bf16 on a GPU, or the one of the folder `start`; the rotary frequencies are
    float32, as where it runs.

    Raises SystemExit where `start` holds no model, or one of another shape.
    """
    model = LlamaForCausalLM._from_config(
        model_config(tokenizer),
        attn_implementation=packed_attention.NAME,
        dtype=training_dtype(device),
    )
    if start is not None:
        try:
            load_model(model, start / "model.safetensors")
        except (OSError, RuntimeError) as error:
            raise SystemExit(
                f"--from {start} must be a model folder that this command made: {error}"
            ) from error
    return model.to(device)


def loss_of(model: LlamaForCausalLM, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Weighted mean cross entropy, and the mean over answer tokens alone (nats)."""
    hidden = model.model(
        input_ids=batch.ids[None],
        position_ids=batch.positions[None],
        use_cache=False,
        bounds=batch.bounds,
        max_len=MAX_DOCUMENT,
    ).last_hidden_state
    logits = model.lm_head(hidden[0]).float()
    each = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none")
    answer = batch.weights == 1.0
    return (each * batch.weights).sum() / batch.weights.sum(), (each * answer).sum() / answer.sum()


def schedule(step: int, progress: float, warmup: int, decay: float) -> float:
    """Warm-up over the first `warmup` steps, flat, then linear to zero over the last `decay` share
    of the run.

    progress: how much of the run is over, from 0 to 1
    """
    return max(0.0, min(1.0, (step + 1) / max(1, warmup), (1 - progress) / max(decay, 1e-9)))


def save_model(model: LlamaForCausalLM, out: Path) -> None:
    """config.json, model.safetensors (bf16) and generation_config.json beside the tokenizer's
    files."""
    out.mkdir(parents=True, exist_ok=True)
    model.generation_config = GenerationConfig(
        bos_token_id=model.config.bos_token_id,
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
        do_sample=False,
    )
    weights = {name: weight.bfloat16() for name, weight in model.named_parameters()}
    model.save_pretrained(out, state_dict=weights)
    document = json.loads((out / "config.json").read_text())
    document.pop("_attn_implementation", None)
    document["dtype"] = "bfloat16"
    (out / "config.json").write_text(json.dumps(document, indent=2) + "\n")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the shipped target model.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument(
        "--from", type=Path, dest="start", help="folder of the weights that a new run begins with"
    )
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument(
        "--until", type=int, default=None, help="stop (with a checkpoint) after this step"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="end, decayed, after this time at the latest",
    )
    parser.add_argument("--row-len", type=int, default=16_384)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--adam-lr", type=float, default=3e-3)
    parser.add_argument("--muon-lr", type=float, default=0.01)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--decay", type=float, default=0.35)
    parser.add_argument("--prompt-weight", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--fresh-optimizer", action="store_true", help="take only the weights of the checkpoint"
    )
    return parser.parse_args()


def read_position(run: Path) -> dict[str, int]:
    """Where the run stopped: the next step and row, and the seconds spent so far."""
    file = run / "position.json"
    return json.loads(file.read_text()) if file.exists() else {"step": 0, "row": 0, "seconds": 0}


def save_checkpoint(
    run: Path, optimizer: MasterOptimizer, position: dict[str, int], log: list[dict[str, float]]
) -> None:
    run.mkdir(parents=True, exist_ok=True)
    torch.save(optimizer.state_dict(), run / "checkpoint.pt")
    (run / "position.json").write_text(json.dumps(position))
    with (run / "log.jsonl").open("a") as out:
        out.writelines(json.dumps(line) + "\n" for line in log)


def prepare(
    args: argparse.Namespace, position: dict[str, int]
) -> tuple[LlamaForCausalLM, MasterOptimizer, Iterator[Batch]]:
    """Model, optimizer and batches, in the state of the checkpoint if there is one."""
    file = (args.start or args.out) / "tokenizer.json"
    source = RowSource(file, args.seed, position["row"], args.row_len, args.workers)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    model = build_model(Tokenizer.from_file(str(file)), args.start, device)
    optimizer = MasterOptimizer(model, args.adam_lr, args.muon_lr)
    if position["step"]:
        state = torch.load(args.run / "checkpoint.pt", map_location=device, weights_only=True)
        optimizer.load_state_dict(state, args.fresh_optimizer)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count / 1e6:.2f}M parameters, from step {position['step']}", flush=True)
    return model, optimizer, batches(source, args.rows, args.prompt_weight, device)


def learning_scale(args: argparse.Namespace, step: int, start: int, time_share: float) -> float:
    """The schedule's scale; the run is as far as its steps or its time, whichever is further.

    time_share: the part of --minutes that is over. A resumed run without running averages warms up
                again.
    """
    warm = step - start if args.fresh_optimizer else step
    return schedule(warm, max(step / args.steps, time_share), args.warmup, args.decay)


def main() -> None:
    begun, args = time.monotonic(), parse_args()
    position = read_position(args.run)
    model, optimizer, stream = prepare(args, position)
    compute = torch.compile(loss_of, dynamic=False) if model.device.type == "cuda" else loss_of
    started = time.monotonic()
    start = position["step"]
    running = None
    step = start
    last = min(args.steps, args.until or args.steps)
    progress = tqdm(total=last, initial=step, desc="target", mininterval=5)
    log: list[dict[str, float]] = []
    while step < last and (time_share := (time.monotonic() - begun) / (args.minutes * 60)) < 1:
        loss, answer_loss = compute(model, next(stream))
        loss.backward()
        norm = optimizer.step(learning_scale(args, step, start, time_share))
        step += 1
        running = (
            answer_loss.detach() if running is None else running.lerp(answer_loss.detach(), 0.02)
        )
        progress.update()
        if step % 250 == 0 or step == last:
            rate = (step - start) * args.rows * args.row_len / (time.monotonic() - started)
            losses = {"loss": loss.item(), "answer_loss": running.item(), "norm": norm.item()}
            log.append({"step": step, **losses, "tokens_per_s": rate})
            tqdm.write(json.dumps(log[-1]))
            if not torch.isfinite(loss):
                raise SystemExit(
                    f"the loss became {loss.item()} at step {step}; lower the learning rates"
                )
    seconds = position["seconds"] + time.monotonic() - begun
    row = position["row"] + (step - start) * args.rows
    save_checkpoint(args.run, optimizer, {"step": step, "row": row, "seconds": int(seconds)}, log)
    save_model(model, args.out)
    print(
        f"step {step}, {seconds:.0f} s in all, {step * args.rows * args.row_len / 1e9:.2f}G tokens",
        flush=True,
    )


if __name__ == "__main__":
    main()
