"""Owns the serving of replicas on Ray Serve: the choice of a replica for each request, and the
processes around it.

serve run specguide.serve_ray:app replicas=2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve import Application


def app(args: dict[str, Any]) -> Application:
    """The application of Ray Serve. Raises InvalidParams.

    args: see `arguments.plans_of`
    """
    from specguide.serve_ray.application import application  # Ray takes time to import
    from specguide.serve_ray.arguments import plans_of

    return application(*plans_of(args))
