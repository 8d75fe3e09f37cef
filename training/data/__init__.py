"""What models and heads are trained on: tasks, each drawn from a seed.

Begin with `tasks`: a document and a schema to JSON, tool calls, short free text. Kinds of documents
are written by hand (`kinds_…`) or composed (`procedural`, `semantic`), and `records`, `values`,
`render` and `prose` make documents of them. `chat` is the form in which a model sees a task, and
`groups` are those that are measured apart. `data_stream` and `draft_data` make rows of tokens of
tasks, and `published_data` those for a model that is not ours.
"""
