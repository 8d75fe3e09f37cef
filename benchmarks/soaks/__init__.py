"""An engine in this process under load for a long time, and checks of its outputs.

Begin with `phase`: an engine is asked `jobs`, while `disturbances`, and `spinners` that hold the
GIL, get in its way. `watched_engine` notes its iterations, and `ledger` what became of each
request; `memory` says whether it grows.
"""
