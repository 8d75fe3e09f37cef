"""How values that come from outside are read, and what is wrong with one.

`integers` says what counts as a number, `field_values` converts and checks the fields of frozen
dataclasses, `json_fields` those of the JSON files of a model folder, and `gguf_file` reads what
stands before the weights of a GGUF file. An error names the field or the file.
"""
