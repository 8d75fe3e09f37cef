"""The parameters of one request.

Begin with `sampling`: SamplingParams, which are frozen and check themselves when they are made.
`rules` says which values each of them may have, `speculation` how a request uses the engine's
drafts.
"""

from specguide.params.sampling import SamplingParams
from specguide.params.speculation import Speculation

__all__ = ["SamplingParams", "Speculation"]
