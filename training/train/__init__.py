"""The commands that train, each of which goes on where it was broken off.

`tokenizer` and `target` make the shipped model, `eagle3` and `mtp` heads for it, and `published` a
head for a published model. `head_trainer` is the training of any head by a `plan`; `kept_states`
trains from states that the target is asked for once, and `optimizer` is that of the target.
"""
