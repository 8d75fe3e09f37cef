"""Owns the playground: a page that shows how each token was generated, and the routes that it
reads."""

from specguide.server.playground.routes import PLAYGROUND_PATHS, router

__all__ = ["PLAYGROUND_PATHS", "router"]
