"""An attention backend that only this file knows, in an engine."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specguide import LLM, SamplingParams, SpecConfig
from specguide.drafts.tree import DraftTree
from specguide.kernels import attention
from specguide.kernels.attention import AttentionForm, AttentionPlan, ForwardContext, TreeMask


@dataclass
class DenseAttention:
    """Attention of one token at a time, over all keys that it sees."""

    num_plans: int = 0
    num_runs: int = 0

    def plan(self, context: ForwardContext) -> AttentionPlan:
        self.num_plans += 1
        return DensePlan(self, context)

    def pair(
        self, leader: ForwardContext, follower: ForwardContext
    ) -> tuple[AttentionPlan, AttentionPlan]:
        return self.plan(leader), self.plan(follower)


@dataclass
class DensePlan:
    backend: DenseAttention
    context: ForwardContext
    seen: list[tuple[int, Tensor]] = field(init=False)

    def __post_init__(self) -> None:
        """Find which token sees which slots of the cache."""
        context = self.context
        bounds = context.query_start_loc.tolist()
        self.seen = [
            (bounds[seq] + token, self.slots(seq, token, query_len=end - start))
            for seq, (start, end) in enumerate(pairwise(bounds))
            for token in range(end - start)
        ]

    def slots(self, seq: int, token: int, query_len: int) -> Tensor:
        context = self.context
        num_keys = int(context.seq_lens[seq])
        mask = context.mask
        ancestors = mask.ancestor_mask[seq, token] if isinstance(mask, TreeMask) else None
        last = torch.arange(query_len) <= token if ancestors is None else ancestors
        sees = torch.cat([torch.ones(num_keys - len(last), dtype=torch.bool), last])
        index = torch.arange(num_keys)[sees]
        pages = context.block_table[seq].long()
        return pages[index // context.page_size] * context.page_size + index % context.page_size

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor:
        assert form == AttentionForm(form.scale)
        self.backend.num_runs += 1
        output = torch.zeros_like(query) if output is None else output.zero_()
        group = query.shape[1] // key_cache.shape[2]
        for token, slots in self.seen:
            keys, values = (
                cache.flatten(0, 1)[slots].repeat_interleave(group, 1)
                for cache in (key_cache, value_cache)
            )
            scores = torch.einsum("hd,shd->hs", query[token], keys) * form.scale
            output[token] = torch.einsum("hs,shd->hd", scores.softmax(-1), values)
        return output


@pytest.mark.parametrize("tree", [None, DraftTree((-1, 0, 0, 1))], ids=["chain", "tree"])
def test_toy_backend_serves_an_engine(
    tree: DraftTree | None, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives what plain torch gives, and plans each pass once, whatever its layers are."""
    target, head = folders
    spec = SpecConfig("eagle3", model=head, **({"tree": tree} if tree else {}))
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
    prompts = [list(b"seven brave cats"), list(b"ab")]

    def token_ids() -> list[tuple[int, ...]]:
        outputs = LLM(target, spec=spec, device="cpu").generate(prompts, params)
        return [tuple(output.token_ids) for output in outputs]

    expected = token_ids()
    toy = DenseAttention()
    monkeypatch.setitem(attention.BACKENDS, "cpu", lambda: toy)
    assert token_ids() == expected
    num_layers = 6
    assert 0 < toy.num_plans < toy.num_runs <= num_layers * toy.num_plans


def test_layers_of_a_pass_share_a_plan() -> None:
    toy = DenseAttention()
    context = ForwardContext(
        position_ids=torch.arange(3),
        slot_mapping=torch.arange(3),
        block_table=torch.zeros(1, 1, dtype=torch.int32),
        query_start_loc=torch.tensor([0, 3], dtype=torch.int32),
        seq_lens=torch.tensor([3], dtype=torch.int32),
        max_query_len=3,
        page_size=4,
        attention=toy,
    )
    cache = torch.randn(1, 4, 1, 8)
    query = torch.randn(3, 2, 8)
    outputs = [context.plan.run(query, cache, cache, AttentionForm(8**-0.5)) for _ in range(2)]
    assert torch.equal(*outputs)
    assert (toy.num_plans, toy.num_runs) == (1, 2)


def test_triton_backend_has_the_parameters_of_the_interface() -> None:
    """Read from the source, since Triton need not be installed."""
    folder = Path(attention.__file__).parent

    def parameters(file: str, owner: str, method: str) -> str:
        classes = [n for n in ast.parse((folder / file).read_text()).body if is_class(n, owner)]
        (found,) = [n for n in classes[0].body if getattr(n, "name", None) == method]
        return ast.unparse(found.args)

    for owner, protocol, method in (
        ("TritonPlan", "AttentionPlan", "run"),
        ("TritonAttention", "AttentionBackend", "plan"),
    ):
        expected = parameters("interface.py", protocol, method)
        assert parameters("triton_backend.py", owner, method) == expected


def is_class(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == name
