"""The vendors' APIs, and the routes beside them.

Begin with `api`: the seam at which an API is added, as one file or a small folder of this room and
an entry in `app.APIS`. `completions` is the shortest; `chat`, `anthropic` and the folder
`responses` answer conversations. A module that serves only one API carries its name;
`openai_objects` and `returned_ids` serve several of OpenAI's. `plain_routes` has the routes that
generate nothing.
"""
