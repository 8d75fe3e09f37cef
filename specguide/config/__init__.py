"""The configuration of an engine: frozen dataclasses, composed into one EngineConfig.

Begin with `engine`: what was asked, with `guide` and `spec` as parts of it. `resolved` makes all
choices that depend on model and device; the engine reads only the ResolvedConfig.
"""

from specguide.config.engine import CacheConfig, EngineConfig, TransferConfig
from specguide.config.guide import GuideConfig
from specguide.config.spec import SpecConfig

__all__ = ["CacheConfig", "EngineConfig", "GuideConfig", "SpecConfig", "TransferConfig"]
