"""Owns the iteration: verify the last drafts, accept, draft the next."""

from specguide.speculation.results import PendingOutput
from specguide.speculation.step import OneModelStep
from specguide.speculation.two_model import TwoModelStep

__all__ = ["OneModelStep", "PendingOutput", "TwoModelStep"]
