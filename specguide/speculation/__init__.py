"""The iteration on its device: verify the last drafts, accept, draft the next.

Begin with `iteration`, which has the whole iteration in order. `step` and `sized_iterations` choose
how one runs: with the exact sizes of its batch, or padded, as a CUDA graph (`graphs`). A Drafting
(`drafting`) makes and verifies drafts of one shape: `chains`, `proposals`, `trees`, `blocks`.
`passes` calls the models, `sampler` chooses tokens, `results` brings them to the host. Each
drafting method is a file of `drafters`.
"""

from specguide.speculation.protocol import Step, StepOptions
from specguide.speculation.results import PendingOutput
from specguide.speculation.sampler import MaskedSampler, Sampler
from specguide.speculation.step import OneModelStep

__all__ = ["MaskedSampler", "OneModelStep", "PendingOutput", "Sampler", "Step", "StepOptions"]
