"""Owns keys of prompts that move between engines: one computes a prompt, another continues it.

Pages move as entries of the prefix cache. A decode engine asks for the pages of a prompt that it
lacks, and publishes what it gets as if it had computed them; what is left of the prompt it computes
itself. So grammars, drafters and sampling go on as after any hit in the prefix cache, and a peer
that does not answer costs time alone.
"""

from specguide.engine.kv_transfer.base import EngineSide, NoTransfer, Transfer
from specguide.engine.kv_transfer.decode_side import DecodeSide
from specguide.engine.kv_transfer.prefill_side import PrefillSide

__all__ = ["EngineSide", "NoTransfer", "Transfer", "load_transfer"]


def load_transfer(engine: EngineSide) -> Transfer:
    """What the role of an engine's configuration comes to. Raises as `Link`."""
    role = engine.config.transfer.role
    if role == "both":
        return NoTransfer()
    return PrefillSide(engine) if role == "prefill" else DecodeSide(engine)
