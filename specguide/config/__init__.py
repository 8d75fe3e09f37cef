"""The configuration of an engine: frozen dataclasses, composed into one EngineConfig.

Begin with `engine`: what was asked, with `guide` and `spec` as parts of it. `resolved` says what
that comes to with a model on a device; the engine reads a ResolvedConfig alone.
"""

from specguide.config.engine import CacheConfig, EngineConfig, TransferConfig
from specguide.config.guide import GuideConfig
from specguide.config.spec import SpecConfig

__all__ = ["CacheConfig", "EngineConfig", "GuideConfig", "SpecConfig", "TransferConfig"]
