"""Owns the settings of speculation: who drafts, how much, and in which shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specguide.drafts.layout import DraftLayout
from specguide.drafts.methods import AUTO, DraftMethod, method_named
from specguide.drafts.tree import CHAIN, DraftShape, TreeShape
from specguide.errors import InvalidParams
from specguide.inputs.field_values import check_types

MOST_DRAFTS = 32


@dataclass(frozen=True)
class SpecConfig:
    """How drafts are made.

    method:            "eagle3", "peagle" or "mtp": a draft head, of which "peagle" makes all its
                       drafts in one pass; "draft_model": a small model with the target's tokenizer.
                       Without any model: "ngram": the tokens that followed the last few tokens at
                       their latest earlier place in the request's text (prompt lookup); "suffix":
                       the tokens that most often followed the longest suffix of the text that
                       occurred before, in this text or in outputs of earlier requests (suffix
                       drafting); "grammar": only forced tokens. "auto": the head that belongs to
                       the target, EAGLE3 for the shipped model and MTP where the target's folder
                       has such layers, in trees of up to 60 nodes, or in chains where
                       num_forced_tokens is given; else "suffix" with 8 forced tokens, or as many as
                       are given. It is adaptive
    model:             folder of the head or small model; left out: the shipped head, or for "mtp"
                       with a target that is not the shipped one, the target's own folder
    num_draft_tokens:  K, drafts after the golden token that the method makes, 1 to 16; "grammar"
                       makes none; for a tree K is its depth, whatever is given here
    tree:              for a draft head or model: a `DynamicTree`, or a `DraftTree` of fixed shape,
                       in which the r-th child of a node is the r-th likeliest token, or a
                       `TreeShape` of your own; left out: a chain. On the command line
                       TOP_K,DEPTH,NODES, for example 10,6,60
    num_forced_tokens: F, further drafts where the grammar forces text; K + F is at most 32;
                       "grammar" needs at least 1
    prompt_lookup_min: fewest tokens that "ngram" looks for, 1 to 16
    prompt_lookup_max: most tokens that "ngram" looks for, 1 to 16
    guided_drafts:     drafts are chosen among the tokens that the grammar allows; False, for
                       comparison: among all tokens, so that only verification is guided; outputs
                       are the same
    adaptive:          each iteration drafts as much as gains most tokens a second, judged by what
                       is accepted and how long iterations take: the whole, a smaller tree or a
                       chain, or nothing, so that drafts that are never accepted cost next to
                       nothing
    synthetic_acceptance: only for measuring with random weights: accept drafts at random, this many
                       tokens an iteration on average, golden token included, 1 to K + 1, whatever
                       the target says. Outputs are then worthless, though they match their grammar.
                       For chains of a draft head or model
    quantization:      "fp8" or "int4": the head's or small model's weights are rounded as they are
                       read; only acceptance can suffer. Left out: they stay as they are
    """

    method: str = "eagle3"
    model: str | Path | None = None
    num_draft_tokens: int = 3
    num_forced_tokens: int = 0
    tree: TreeShape | None = None
    prompt_lookup_min: int = 2
    prompt_lookup_max: int = 4
    guided_drafts: bool = True
    adaptive: bool = False
    synthetic_acceptance: float | None = None
    quantization: str | None = None

    def __post_init__(self) -> None:
        check_types(self)
        method = method_named(self.method)
        if not 1 <= self.num_draft_tokens <= 16:
            raise InvalidParams(
                f"num_draft_tokens must be 1 to 16, found {self.num_draft_tokens}",
                param="num_draft_tokens",
            )
        self.shape.check(method, self.num_forced_tokens)
        self._check_proposals(method)
        self._check_model(method)
        self._check_synthetic(method)
        if not self.guided_drafts:
            self.layout.check_unguided()

    def _check_proposals(self, method: DraftMethod) -> None:
        least = method.least_forced
        num_own = method.chain(self.num_draft_tokens, 0).num_drafts
        most = MOST_DRAFTS - num_own
        if not least <= self.num_forced_tokens <= most:
            beside = f" and {num_own} draft tokens" if num_own else ""
            raise InvalidParams(
                f"num_forced_tokens must be {least} to {most} with spec.method {self.method!r}"
                f"{beside}, found {self.num_forced_tokens}",
                param="num_forced_tokens",
            )
        if not 1 <= self.prompt_lookup_min <= self.prompt_lookup_max <= 16:
            raise InvalidParams(
                "prompt_lookup_min and prompt_lookup_max must be 1 to 16, with prompt_lookup_min ≤ "
                f"prompt_lookup_max; found {self.prompt_lookup_min} and {self.prompt_lookup_max}",
                param="prompt_lookup_min",
            )

    def _check_model(self, method: DraftMethod) -> None:
        if self.model is not None and self.method == AUTO:
            raise InvalidParams(
                "spec.method 'auto' finds the draft head of the target by itself: leave spec.model "
                "out, or set spec.method to the method of that model",
                param="model",
            )
        if self.model is not None and not method.has_model:
            raise InvalidParams(
                f"spec.method {self.method!r} uses no draft head or model: leave spec.model out",
                param="model",
            )
        if self.quantization is not None and not method.has_model and self.method != AUTO:
            raise InvalidParams(
                f"spec.method {self.method!r} uses no draft head or model: leave spec.quantization "
                "out",
                param="quantization",
            )

    def _check_synthetic(self, method: DraftMethod) -> None:
        wanted = self.synthetic_acceptance
        if wanted is None:
            return
        if not 1 <= wanted <= self.num_draft_tokens + 1:
            raise InvalidParams(
                "synthetic_acceptance must be 1 to num_draft_tokens + 1 = "
                f"{self.num_draft_tokens + 1}, found {wanted}",
                param="synthetic_acceptance",
            )
        is_a_chain = method.has_model and not method.has_own_trees and self.tree is None
        if not is_a_chain or self.num_forced_tokens or self.adaptive:
            raise InvalidParams(
                "synthetic_acceptance works only for chains of drafts from a draft head or model: "
                "leave out tree, num_forced_tokens and adaptive, and set spec.method to one with a "
                "head or model",
                param="synthetic_acceptance",
            )

    @property
    def shape(self) -> DraftShape:
        """Whether drafts form a chain or a tree, and which."""
        return self.tree or CHAIN

    @property
    def layout(self) -> DraftLayout:
        """All drafts that there may be. With "auto" the layout is provisional, since the method
        depends on the target."""
        method = method_named(self.method)
        return self.shape.layout(method.chain(self.num_draft_tokens, self.num_forced_tokens))
