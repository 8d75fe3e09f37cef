"""Draft heads as they are trained: modules, their checkpoints, and their losses.

Begin with `unroll`, which runs a head over its own features as it will draft. `eagle3` and `mtp`
are the heads; `head_layers` has what they are built from, with `packed_attention`, and
`linear_loss`, with `softmax_kernel`, the loss where logits would take too much memory.
"""
