"""Requests from the call that adds them until their caller has them back.

Begin with `requests`: it owns the requests under way, and passes each through the other modules.
`prompts` reads what a caller gives, `admission` checks a request and compiles its grammar, `walks`
makes the snapshots for the grammar stream, `deadlines` and `failures` end requests early, and
`faithful` draws outputs from scored requests. The scheduler's state of a request is not here.
"""
