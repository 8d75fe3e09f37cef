"""/v1/responses, OpenAI's API of items.

Begin with `responses`, which has the whole way. `input` reads the items of a request, and `tools`
its tools that are no plain functions; `items` writes those of the answer, and `failure` ends a
stream by an error.
"""

from specguide.server.apis.responses.responses import API, count

__all__ = ["API", "count"]
