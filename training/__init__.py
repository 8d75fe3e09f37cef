"""How the shipped small model and its draft heads were made; every step is a command that can be
run again. README.md tells which, and with what result.

`data` has what is learnt, `heads` the draft heads as they are trained, `evaluate` how good a model
or head is, and `train` the commands that make them.
"""
