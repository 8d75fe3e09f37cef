"""The iteration on its device: verify the last drafts, accept, draft the next.

Begin with `iteration`, which is all of it in order; `step` and `sized_iterations` choose how one
runs, exactly or as a CUDA graph (`graphs`). How drafts of a shape are made and verified is a
Drafting (`drafting`): `chains`, `proposals`, `trees`, `blocks`. `passes` calls the models,
`sampler` chooses tokens, `results` brings them to the host. Each way to draft is a file of
`drafters`.
"""

from specguide.speculation.protocol import Step, StepOptions
from specguide.speculation.results import PendingOutput
from specguide.speculation.sampler import MaskedSampler, Sampler
from specguide.speculation.step import OneModelStep

__all__ = ["MaskedSampler", "OneModelStep", "PendingOutput", "Sampler", "Step", "StepOptions"]
