"""`specguide serve` in processes of its own.

Begin with `process`, which starts and ends the service and kills parts of it; meanwhile
`checked_clients` check all answers. `paced_engine` is an engine without a model behind real fronts;
`front_kinds` says what it gives them.
"""
