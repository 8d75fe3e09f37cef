"""The host that this process runs on: its machine, environment, packages and processes.

`machine` counts processor cores and memory, `env` reads every environment variable, `release` knows
the installed release and its extras, `transformers_import` imports that library when it is first
needed, and `processes` ties a process to its parent. Nothing here knows of models or requests.
"""
