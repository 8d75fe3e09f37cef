"""The models: one decoder for the dense families, draft heads, and how both are read from checkpoints."""

from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder

__all__ = ["Decoder", "ModelConfig"]
