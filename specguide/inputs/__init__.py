"""Reads and checks values that come from outside: configuration fields and model files.

`integers` says what counts as a number, `field_values` converts and checks the fields of frozen
dataclasses, `json_fields` does so for the JSON files of a model folder, and `gguf_file` reads the
header of a GGUF file. An error names the field or the file.
"""
