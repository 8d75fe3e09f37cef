"""From a task to its events.

Begin with `run`, which gives a task to the engine and reads all of its samples. `sample_reader`
reads one of them; `parsed_sample` tells its reasoning, text and calls apart, `said_pieces` makes
these events, and `stop_tail` cuts the text at a stop string.
"""
