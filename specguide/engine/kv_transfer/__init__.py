"""Owns the transfer of KV pages between engines: one computes a prompt, another continues it.

Pages move as entries of the prefix cache. A decode engine asks for the pages of a prompt that it
does not have, and publishes them as if it had computed them; it computes the rest of the prompt
itself. So grammars, drafters and sampling work as after any hit in the prefix cache, and a peer
that does not answer only costs time.
"""

from specguide.engine.kv_transfer.base import EngineSide, NoTransfer, Transfer
from specguide.engine.kv_transfer.decode_side import DecodeSide
from specguide.engine.kv_transfer.prefill_side import PrefillSide
from specguide.errors import InvalidParams

__all__ = ["EngineSide", "NoTransfer", "Transfer", "load_transfer"]


def load_transfer(engine: EngineSide) -> Transfer:
    """The transfer for the role in an engine's configuration. Raises as `Link` does, and
    InvalidParams for a model whose pages are not all that it remembers."""
    role = engine.config.transfer.role
    if role == "both":
        return NoTransfer()
    if any(cache.states is not None for cache in engine.caches):
        raise InvalidParams(
            f"role {role!r} is not supported for a model with linear attention, whose states are "
            "not sent: leave role out",
            param="role",
        )
    return PrefillSide(engine) if role == "prefill" else DecodeSide(engine)
