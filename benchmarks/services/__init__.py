"""`specguide serve` in processes of its own.

Begin with `process`, which starts and ends it, and ends parts of it; `checked_clients` see to it
that no answer is wrong meanwhile. `paced_engine` is an engine without a model behind real fronts,
and gives them what `front_kinds` says.
"""
