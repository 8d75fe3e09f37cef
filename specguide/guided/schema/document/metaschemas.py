"""Owns the meta-schemas of JSON Schema's drafts, which a schema may refer to. They are read from an
installed package, never fetched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

MEND = "`pip install jsonschema-specifications` makes it known, or give it in schema_documents"
"""Advice for a meta-schema that is not known."""


def is_metaschema(uri: str) -> bool:
    """Whether a URI without a fragment belongs to the drafts' published schemas."""
    scheme, _, rest = uri.partition("://")
    return scheme in ("http", "https") and rest.startswith("json-schema.org/draft")


def metaschema(uri: str) -> Any:
    """Returns the meta-schema of a URI without a fragment; None for an unknown one."""
    return _metaschemas().get(uri) if is_metaschema(uri) else None


@cache
def _metaschemas() -> Mapping[str, Any]:
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        return {}
    return {uri: REGISTRY.contents(uri) for uri in REGISTRY}
