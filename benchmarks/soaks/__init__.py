"""An engine in this process under load for long, and whether all was right.

Begin with `watch`: an engine whose iterations are noted, the ledger of its requests, its memory.
`load` is what it is put under, and `spinners` are threads beside it that hold the GIL.
"""
