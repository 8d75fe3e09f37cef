"""The grammar beside the forward passes: matchers walk while tokens come, so that the rows are
ready when the step needs them.

Begin with `stream`: GrammarStream is all that engine and step use. `callbacks` implements it for an
engine with guides: it starts `executor`, which walks over the drafts as `walk_shapes` says, and
writes `buffers`, which the step reads through `step_rows`. `streams` runs the callbacks and waits
for them. `shared_rows` is the grammar of several ranks, and `no_grammar` that of an engine without
guides. `hostfunc` stands alone: it runs any Python function in the order of a stream.
"""
