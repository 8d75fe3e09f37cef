"""Owns drafting with an EAGLE-3 head."""

from __future__ import annotations

from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Eagle3Head
from specguide.speculation.drafters.base import DrafterSpec, DraftTarget
from specguide.speculation.drafters.heads import with_head


def _load(spec: SpecConfig, target: DraftTarget) -> Eagle3Head:
    folder = spec.model or target.shipped / "eagle3"
    try:
        head = Eagle3Head.load(folder, target.model, quantization=spec.quantization)
    except CheckpointError as error:
        if spec.model is not None or target.folder is None:
            raise
        raise InvalidParams(
            f"speculation by 'eagle3' needs the folder of a head for {target.folder}, since the "
            f"shipped one does not fit ({error}): SpecConfig('eagle3', model=folder), on the "
            "command line --head FOLDER",
            param="spec",
        ) from error
    if head.mask_token_id is not None:
        raise CheckpointError(
            f"{spec.model}: holds a P-EAGLE head, which makes all its drafts in one pass: use the "
            "method 'peagle'"
        )
    return head


DRAFTER = DrafterSpec(method_named("eagle3"), load=_load, propose=with_head)
