"""The models: one decoder for the dense families, draft heads, and how both are read from
checkpoints."""

from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder
from specguide.models.eagle3 import Eagle3Head
from specguide.models.eagle3_config import Eagle3Config
from specguide.models.mtp import MtpHead

__all__ = ["Decoder", "Eagle3Config", "Eagle3Head", "ModelConfig", "MtpHead"]
