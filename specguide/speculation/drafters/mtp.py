"""Owns drafting with an MTP head, which is published in the target's own folder."""

from __future__ import annotations

from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.models import MtpHead
from specguide.speculation.drafters.base import DrafterSpec, DraftTarget
from specguide.speculation.drafters.heads import with_head


def _load(spec: SpecConfig, target: DraftTarget) -> MtpHead:
    return MtpHead.load(
        spec.model or target.folder or target.shipped / "mtp",
        target.model,
        quantization=spec.quantization,
    )


DRAFTER = DrafterSpec(method_named("mtp"), load=_load, propose=with_head)
