"""Owns DraftMethod: what a configuration must know of each drafting method. `speculation.drafters`
implements the methods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from specguide.drafts.layout import DraftLayout
from specguide.errors import InvalidParams


@dataclass(frozen=True)
class DraftMethod:
    """A drafting method.

    name:   as in SpecConfig
    source: who makes the K drafts: a model, a lookup on the host, or nobody, so that there are only
            forced tokens
    in_one_pass: a model makes all K drafts at once, before any of them is chosen
    """

    name: str
    source: Literal["model", "lookup", "nobody"]
    in_one_pass: bool = False

    @property
    def has_model(self) -> bool:
        return self.source == "model"

    @property
    def has_own_trees(self) -> bool:
        """Whether the method chooses its trees itself."""
        return self.name == AUTO

    @property
    def least_forced(self) -> int:
        """Fewest forced tokens that it needs to have drafts at all."""
        return int(self.source == "nobody")

    def chain(self, num_draft_tokens: int, num_forced: int) -> DraftLayout:
        """The chain of its drafts."""
        own = {self.source: num_draft_tokens}
        chain = DraftLayout.chain(own.get("model", 0), own.get("lookup", 0), num_forced)
        if not self.in_one_pass:
            return chain
        # Its pass covers the K verified drafts, however many are accepted, and K new ones.
        return replace(chain, num_positions=2 * num_draft_tokens)

    def check_alone(self, num_forced: int) -> None:
        """Raise InvalidParams where all drafts are made in one pass, but forced tokens would have
        to come between them."""
        if self.in_one_pass and num_forced:
            raise InvalidParams(
                f"method {self.name!r} makes all its drafts in one pass, so no forced tokens can "
                "be put between them: set num_forced_tokens to 0",
                param="num_forced_tokens",
            )


AUTO = "auto"
"""The method that stands for another one, chosen by the target."""

_METHODS = {
    method.name: method
    for method in (
        DraftMethod("eagle3", "model"),
        DraftMethod("peagle", "model", in_one_pass=True),
        DraftMethod("mtp", "model"),
        DraftMethod("draft_model", "model"),
        DraftMethod("ngram", "lookup"),
        DraftMethod("suffix", "lookup"),
        DraftMethod("grammar", "nobody"),
        DraftMethod(AUTO, "model"),
    )
}


def add_method(method: DraftMethod) -> None:
    """Register a method that configurations may name. It replaces one of the same name."""
    _METHODS[method.name] = method


def method_names() -> tuple[str, ...]:
    """The names of all methods."""
    return tuple(_METHODS)


def method_named(name: str) -> DraftMethod:
    """The method of this name. Raises InvalidParams for an unknown one."""
    if name not in _METHODS:
        raise InvalidParams(
            f"speculation method {name!r} is unknown; known: {', '.join(_METHODS)}", param="spec"
        )
    return _METHODS[name]
