"""Owns the transfer of KV pages between engines: one computes a prompt, another continues it.

Pages move as entries of the prefix cache. A decode engine asks for the pages of a prompt that it
does not have, and publishes them as if it had computed them; it computes the rest of the prompt
itself. So grammars, drafters and sampling work as after any hit in the prefix cache, and a peer
that does not answer only costs time.
"""

from specguide.engine.kv_transfer.base import EngineSide, NoTransfer, Transfer
from specguide.engine.kv_transfer.decode_side import DecodeSide
from specguide.engine.kv_transfer.prefill_side import PrefillSide

__all__ = ["EngineSide", "NoTransfer", "Transfer", "load_transfer"]


def load_transfer(engine: EngineSide) -> Transfer:
    """The transfer for the role in an engine's configuration. Raises as `Link` does."""
    role = engine.config.transfer.role
    if role == "both":
        return NoTransfer()
    return PrefillSide(engine) if role == "prefill" else DecodeSide(engine)
