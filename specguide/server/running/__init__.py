"""From a task to its events.

Begin with `run`, which gives a task to the engine and reads all of its samples. `sample_reader`
reads one sample; `parsed_sample` separates its reasoning, text and calls, `said_pieces` makes
events of them, and `stop_tail` cuts the text at a stop string.
"""
