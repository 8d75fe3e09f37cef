"""Owns logits processors: a user's functions that change a request's logits before all other
adjustments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specguide.errors import RequestError
from specguide.params import SamplingParams
from specguide.params.rules import num_processor_arguments

Processor = Callable[[list[int], Tensor], Any]
"""Takes the output's token ids and the logits of the next token, float32 [V]; returns new
logits."""


class RequestProcessors(NamedTuple):
    """A request's processors, and its output, which grows with each commit."""

    processors: tuple[Processor, ...]
    output_ids: Sequence[int]


Failures = dict[tuple[int, int], RequestError]
"""Why a node has no logits, by row of the batch and node."""


def bind_processors(params: SamplingParams, prompt_ids: Sequence[int]) -> tuple[Processor, ...]:
    """A request's processors; the prompt is bound to those that take it as an argument."""
    prompt_ids = list(prompt_ids)
    return tuple(
        partial(processor, prompt_ids) if num_processor_arguments(processor) == 3 else processor
        for processor in params.logits_processors or ()
    )


def process_logits(
    logits: Tensor, drafts: Tensor, requests: Mapping[int, RequestProcessors]
) -> tuple[Tensor, Failures]:
    """Logits after each node, changed by the requests' processors as if the drafts on the node's
    path had been output.

    Runs the processors on the calling thread, on copies in host memory. So it waits for the device,
    and cannot be captured in a graph.

    logits:   [B · N, V], floating; not changed
    drafts:   int32 [B, N - 1], the drafts behind the first node; -1: none
    requests: the requests with processors, by row of the batch; their output_ids end before the
              first node
    Returns float32 [B · N, V], with the rows of other requests as in `logits`, and the failures of
    processors. A row that has failed is -inf; the failure counts only if the path to it is
    accepted.
    """
    rows = list(requests)
    paths = drafts[rows].tolist()
    processed = logits.to(torch.float32, copy=True)
    by_request = processed.view(len(drafts), -1, logits.shape[1])
    chosen = by_request[rows]
    on_host = torch.empty(
        chosen.shape, dtype=torch.float32, device="cpu", pin_memory=logits.is_cuda
    ).copy_(chosen)
    failures: Failures = {}
    for (row, request), path, path_logits in zip(requests.items(), paths, on_host, strict=True):
        failures |= {
            (row, node): error for node, error in _process_path(path_logits, path, request).items()
        }
    by_request[rows] = on_host.to(logits.device)
    return processed, failures


def _process_path(
    logits: Tensor, drafts: Sequence[int], request: RequestProcessors
) -> dict[int, RequestError]:
    """Process logits float32 [N, V] in place, one row per node, up to a node without a draft or
    with an error. Returns the error by its node."""
    output_ids = list(request.output_ids)
    for node, draft in enumerate([*drafts, -1]):
        try:
            logits[node] = _process(logits[node], output_ids, request.processors)
        except RequestError as error:
            logits[node] = float("-inf")
            return {node: error}
        if draft < 0:
            break
        output_ids.append(draft)
    return {}


def _process(logits: Tensor, output_ids: Sequence[int], processors: Sequence[Processor]) -> Tensor:
    """The result of all processors for logits float32 [V]. Raises RequestError where one fails."""
    shape = logits.shape
    for index, processor in enumerate(processors):
        try:
            logits = _checked(processor(list(output_ids), logits), shape)
        except Exception as cause:  # user code may raise anything
            raise RequestError(
                f"logits_processors[{index}] failed after {len(output_ids)} tokens of output: "
                f"{type(cause).__name__}: {cause}"
            ) from cause
    return logits


def _checked(result: object, shape: torch.Size) -> Tensor:
    if not isinstance(result, Tensor):
        raise TypeError(
            f"it must return the logits, a torch.Tensor; it returned {type(result).__name__}"
        )
    if result.shape != shape or result.dtype != torch.float32:
        raise TypeError(
            f"it must return float32 {list(shape)}; it returned "
            f"{str(result.dtype).removeprefix('torch.')} "
            f"{list(result.shape)}"
        )
    if bool(result.isnan().all()):
        raise ValueError("it must return numbers; every logit that it returned is NaN")
    return result
