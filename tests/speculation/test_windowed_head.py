"""An EAGLE-3 head with a sliding window in the engine: its drafts are those of the slow head."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from checkpoint_files import changed_json, changed_weights, config_in, weights_in
from paging import Sequences
from slow_head import SlowHead

from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.drafts.tree import DraftTree
from specguide.models import Decoder, Eagle3Head

K, WINDOW = 3, 4


@pytest.fixture(scope="module")
def head_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head that says other things where it sees more."""
    folder = tiny.save_head(tmp_path_factory.mktemp("windowed"))
    with changed_weights(folder) as weights, changed_json(folder) as config:
        weights["midlayer.self_attn.o_proj.weight"] *= 8
        config["sliding_window"] = WINDOW
    return folder


class Reference:
    """Drafts from the target's hidden states of a whole text and the slow head."""

    def __init__(self, target_folder: Path, head_folder: Path, window: int | None) -> None:
        self.target = Decoder.load(target_folder)
        self.head = Eagle3Head.load(head_folder, self.target)
        config = config_in(head_folder) | {"sliding_window": window}
        inv_freq = torch.tensor(
            [config["rope_theta"] ** (-2 * i / config["head_dim"]) for i in range(4)]
        )
        self.slow = SlowHead(
            config, weights_in(head_folder), self.target.embedding.weight, inv_freq
        )

    @torch.inference_mode()
    def drafts(self, ids: list[int], num_known: int, allowed: list[int]) -> list[int]:
        """The drafts that follow the first `num_known` of the ids, chosen among those allowed."""
        sequences = Sequences(1, len(ids))
        cache = sequences.cache(self.target.config)
        _, aux_hidden_states = self.target.forward(
            torch.tensor(ids), sequences.extend([len(ids)]), cache, self.head.aux_layers
        )
        features, next_ids, drafts = (
            self.head.fuse(aux_hidden_states)[: num_known - 1],
            torch.tensor(ids[1:num_known]),
            [],
        )
        is_allowed = torch.isin(self.head.target_ids, torch.tensor(allowed))
        for _ in range(K):
            hidden = self.slow.forward(next_ids, features)[-1:]
            logits = self.slow.logits(hidden).masked_fill(~is_allowed, float("-inf"))
            token = self.head.target_ids[logits.argmax(-1)]
            features, next_ids = torch.cat((features, hidden)), torch.cat((next_ids, token))
            drafts.append(int(token))
        return drafts


def num_equal(drafts: list[int], tokens: list[int]) -> int:
    return next(
        (index for index, pair in enumerate(zip(drafts, tokens, strict=True)) if len({*pair}) > 1),
        K,
    )


@pytest.mark.parametrize("tree", [None, DraftTree.chain(K)], ids=["chain", "tree"])
def test_drafts_are_those_of_the_slow_head(
    tree: DraftTree | None, folders: tuple[Path, Path], head_folder: Path
) -> None:
    spec = SpecConfig(
        "eagle3", head_folder, **({"num_draft_tokens": K} if tree is None else {"tree": tree})
    )
    llm = LLM(
        folders[0],
        spec=spec,
        max_batch_size=4,
        max_prefill_tokens=16,
        guide=GuideConfig(deadline_us=60_000_000),
    )
    prompts = ["abcabcabc" * 3, "xy", "The quick brown fox", "cab"]
    outs = llm.generate(
        prompts, SamplingParams(max_tokens=24, guide=Guide(regex="[abc]{24}"), return_drafts=True)
    )
    allowed = llm.tokenizer.encode("abc")
    windowed, whole = (Reference(folders[0], head_folder, window) for window in (WINDOW, None))
    num_unlike_whole = 0
    for prompt, out in zip(prompts, outs, strict=True):
        ids = [*llm.tokenizer.encode(prompt), *out.token_ids]
        num_known = len(ids) - len(out.token_ids)
        for one in out.iterations:
            if not one.is_prefill and num_known + K < len(ids) - 1:
                expected, tokens = (
                    windowed.drafts(ids, num_known, allowed),
                    ids[num_known : num_known + K],
                )
                assert one.num_accepted == num_equal(expected, tokens)
                assert tree is not None or list(one.drafts) == expected
                num_unlike_whole += one.num_accepted != num_equal(
                    whole.drafts(ids, num_known, allowed), tokens
                )
            num_known += len(one.tokens)
    llm.close()
    assert num_unlike_whole > 3
