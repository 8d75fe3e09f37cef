"""/v1/responses, OpenAI's API of items.

Begin with `responses`, which takes a request from its body to its answer. `input` reads the items
of a request, and `tools` those of its tools that are not plain functions; `items` writes the items
of the answer, and `failure` ends a stream with an error.
"""

from specguide.server.apis.responses.responses import API, count

__all__ = ["API", "count"]
