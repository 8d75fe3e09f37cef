"""The models: a file for each family, the decoder that they all share, draft heads, and how
checkpoints are read."""

from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder
from specguide.models.eagle3 import Eagle3Head
from specguide.models.eagle3_config import Eagle3Config
from specguide.models.loading import load_decoder, read_config
from specguide.models.mtp import MtpHead
from specguide.models.registry import FAMILIES, config_of

__all__ = [
    "FAMILIES",
    "Decoder",
    "Eagle3Config",
    "Eagle3Head",
    "ModelConfig",
    "MtpHead",
    "config_of",
    "load_decoder",
    "read_config",
]
