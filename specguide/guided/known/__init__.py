"""What is known of a guide beside its text, since a grammar alone cannot say it. Plain data, which
goes from who writes a text to who wraps its grammar.

Begin with `keys`: objects that may have their keys in any order. `items` is about arrays of
distinct items, and `call_texts` about calls of many tools.
"""
