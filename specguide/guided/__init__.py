"""Guided decoding: from a Guide to bitmask rows beside the forward passes."""
