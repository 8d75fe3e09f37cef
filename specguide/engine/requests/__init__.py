"""Requests from the call that adds them until their caller has them back.

Begin with `requests`: it owns those under way, and takes each on its way through the others.
`prompts` reads what a caller gives, `admission` checks it and compiles its grammar, `walks` tells
the grammar stream of it, `deadlines` and `failures` end it early, and `faithful` makes one request
of several scored ones. What the scheduler knows of a request is the scheduler's.
"""
