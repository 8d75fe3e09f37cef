"""Owns the iteration: verify the last drafts, accept, draft the next."""

from specguide.spec.results import PendingOutput
from specguide.spec.step import OneModelStep
from specguide.spec.two_model import TwoModelStep

__all__ = ["OneModelStep", "PendingOutput", "TwoModelStep"]
