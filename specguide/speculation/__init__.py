"""Owns the iteration: verify the last drafts, accept, draft the next."""

from specguide.speculation.protocol import Step, StepOptions
from specguide.speculation.results import PendingOutput
from specguide.speculation.sampler import MaskedSampler, Sampler
from specguide.speculation.step import OneModelStep

__all__ = ["MaskedSampler", "OneModelStep", "PendingOutput", "Sampler", "Step", "StepOptions"]
