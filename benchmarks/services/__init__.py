"""`specguide serve` in processes of its own.

Begin with `process`, which starts and ends it, and ends parts of it; `kill_load` has clients that
notice. `paced_engine` is an engine without a model behind real fronts, and gives them what
`front_kinds` says.
"""
