"""The grammar beside the forward passes: matchers walk while tokens come, and their rows are ready
where the step wants them.

Begin with `stream`: GrammarStream is all that engine and step ask. `callbacks` is the one of an
engine with guides: it starts `executor`, which walks over the drafts as `walk_shapes` says, and
writes `buffers`, which the step reads as `step_rows`. `streams` has the callbacks run and waits for
them. `shared_rows` is the grammar of several ranks, and `no_grammar` that of an engine without
guides. `hostfunc` stands alone: any function of Python, run in the order of a stream.
"""
