"""Owns what the method "auto" comes to for a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specguide.config import SpecConfig
from specguide.draft_methods import AUTO
from specguide.draft_tree import DynamicTree
from specguide.models import MtpHead

_NUM_FORCED_BY_AUTO = 8


def chosen_method(spec: SpecConfig, target_folder: str | Path | None) -> SpecConfig:
    """Where it is "auto", what it comes to for a target. target_folder: None for the shipped
    model"""
    if spec.method != AUTO:
        return spec
    if target_folder is not None and not MtpHead.is_in(target_folder):
        return replace(
            spec, method="suffix", num_forced_tokens=spec.num_forced_tokens or _NUM_FORCED_BY_AUTO
        )
    return replace(
        spec,
        method="mtp" if target_folder is not None else "eagle3",
        tree=None if spec.num_forced_tokens else DynamicTree(),
    )
