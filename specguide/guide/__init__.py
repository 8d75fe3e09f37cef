"""What an output must match, as a caller says it; `guided` makes grammars of it.

Begin with `guide`: Guide, and the Reasoning that may come before it. `ready_grammars` finds the
grammars that have a name, `schema_documents` holds what schemas may refer to, and
`structured_outputs` and `structural_tags` read what vLLM and SGLang call a guide.
"""

from specguide.guide.guide import KEY_ORDERS, Guide, Reasoning

__all__ = ["KEY_ORDERS", "Guide", "Reasoning"]
