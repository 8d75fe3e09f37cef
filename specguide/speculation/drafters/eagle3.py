"""Owns drafting with an EAGLE-3 head."""

from __future__ import annotations

from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.errors import CheckpointError
from specguide.models import Eagle3Head
from specguide.speculation.drafters.base import DrafterSpec, DraftTarget
from specguide.speculation.drafters.heads import with_head


def _load(spec: SpecConfig, target: DraftTarget) -> Eagle3Head:
    head = Eagle3Head.load(
        spec.model or target.shipped / "eagle3", target.model, quantization=spec.quantization
    )
    if head.mask_token_id is not None:
        raise CheckpointError(
            f"{spec.model}: holds a P-EAGLE head, which makes all its drafts in one pass: name the "
            "method 'peagle'"
        )
    return head


DRAFTER = DrafterSpec(method_named("eagle3"), load=_load, propose=with_head)
