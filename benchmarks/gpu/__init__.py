"""How work on a GPU is timed.

Begin with `timing`: calls, marks on a stream, the bandwidth of copies. `kernel_families` splits the
time of a profile by families of kernels, and `clock` records the GPU's clock and power.
"""
