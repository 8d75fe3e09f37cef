"""What quantization costs in quality: how far each format of the shipped model is from the original
model.

    python -m benchmarks.quality [--formats fp8,int4] [--tokens 2000]

Tasks that the model was never trained on are read with their expected answers; at each token of an
answer, the two models' distributions over the next one are compared: the mean Kullback-Leibler
divergence, and how often the likeliest token is the same. Both run in float32, so that the format
alone differs. Prints a table, then one JSON line. A format is an entry in FORMATS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks.common import argument_parser, emit
from benchmarks.guides.tasks import fresh_tasks, prompt_of
from benchmarks.models.logits import logits_of
from specguide.engine.setup.target_folder import SHIPPED_MODEL
from specguide.host import env
from specguide.layers.quantization import ONLINE
from specguide.models import Decoder
from specguide.tokenizer import Tokenizer
from training.data import chat

FORMATS: dict[str, Callable[[Path], Decoder]] = {
    name: partial(Decoder.load, quantization=name) for name in ONLINE
}
"""Functions by format that write a quantized model, given the folder of the original."""

LEAST_AGREEMENT = {"fp8": 0.97, "int4": 0.93}
"""Share of tokens at which the likeliest one must be the same."""


@dataclass(frozen=True)
class Quality:
    """How far a model is from another.

    kl:        mean divergence of its distribution over the next token from the other's, nats
    agreement: share of tokens at which the likeliest is the same
    """

    num_tokens: int
    kl: float
    agreement: float


def answers(num_tokens: int) -> Iterator[tuple[list[int], list[int]]]:
    """Prompts and expected answers of fresh tasks, token ids, until the answers have `num_tokens`
    tokens; those first whose answers are long beside their prompts."""
    tokenizer = Tokenizer.from_folder(SHIPPED_MODEL / "target")
    tasks = fresh_tasks(1 + num_tokens // 200)
    tasks.sort(key=lambda task: len(chat.render_prompt(task)) / len(task.answer))
    for task in tasks:
        answer = tokenizer.encode(task.answer, add_special_tokens=False)[:num_tokens]
        yield prompt_of(task, tokenizer), answer
        num_tokens -= len(answer)
        if not num_tokens:
            return


@torch.inference_mode()
def compare(
    model: Decoder, reference: Decoder, texts: Sequence[tuple[list[int], list[int]]]
) -> Quality:
    """At each token of the answers."""
    divergence, num_same, num_tokens = 0.0, 0, 0
    for prompt, answer in texts:
        found, wanted = (
            logits_of(one, prompt + answer)[len(prompt) - 1 : -1].log_softmax(-1)
            for one in (model, reference)
        )
        divergence += float((wanted.exp() * (wanted - found)).sum())
        num_same += int((found.argmax(-1) == wanted.argmax(-1)).sum())
        num_tokens += len(answer)
    return Quality(num_tokens, divergence / num_tokens, num_same / num_tokens)


def measure(
    formats: Sequence[str], num_tokens: int, *, is_whole: bool = False
) -> dict[str, Quality]:
    """The quality of the shipped model in each format; is_whole: prompts count too."""
    folder = SHIPPED_MODEL / "target"
    texts, reference = list(answers(num_tokens)), Decoder.load(folder)
    if is_whole:
        texts = [(prompt[:1], prompt[1:] + answer) for prompt, answer in texts]
    return {name: compare(FORMATS[name](folder), reference, texts) for name in formats}


def main() -> None:
    """Run the benchmark; exits with 1 where a format agrees less than it must."""
    parser = argument_parser(__doc__)
    parser.add_argument("--formats", default=",".join(FORMATS), help="comma-separated")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--whole", action="store_true", help="at the prompts' tokens too")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(env.num_forward_threads())
    found = measure(args.formats.split(","), args.tokens, is_whole=args.whole)
    print(f"{'format':<20} {'tokens':>7} {'KL':>9} {'same top-1':>11}")
    for name, it in found.items():
        print(f"{name:<20} {it.num_tokens:>7} {it.kl:>9.5f} {it.agreement:>11.2%}")
    rows = {name: asdict(it) for name, it in found.items()}
    emit("quality", vars(args), rows, save=not (args.no_save or args.whole))
    if args.whole:
        return
    too_low = [name for name, it in found.items() if it.agreement < LEAST_AGREEMENT[name]]
    if too_low:
        raise SystemExit(f"agrees with the model as it is less than it must: {', '.join(too_low)}")


if __name__ == "__main__":
    main()
