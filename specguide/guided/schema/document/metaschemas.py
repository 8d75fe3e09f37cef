"""Owns the published schemas of JSON Schema's drafts, which a schema may refer to. None is ever
fetched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

MEND = "`pip install jsonschema-specifications` makes it known, or give it in schema_documents"
"""What to do about one that is not known."""


def is_metaschema(uri: str) -> bool:
    """Whether a URI without a fragment is of those under which drafts are published."""
    scheme, _, rest = uri.partition("://")
    return scheme in ("http", "https") and rest.startswith("json-schema.org/draft")


def metaschema(uri: str) -> Any:
    """The schema that is published under a URI without a fragment; None where none is known."""
    return _metaschemas().get(uri) if is_metaschema(uri) else None


@cache
def _metaschemas() -> Mapping[str, Any]:
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        return {}
    return {uri: REGISTRY.contents(uri) for uri in REGISTRY}
