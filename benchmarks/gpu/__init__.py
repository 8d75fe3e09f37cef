"""How what runs on a GPU is timed.

Begin with `timing`: calls, marks on a stream, the bandwidth of copies. `kernel_families` tells from
a profile what the time is spent on, and `clock` at which clock it ran.
"""
