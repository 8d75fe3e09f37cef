"""The guides of callers: what an output must match. `guided` compiles grammars from them.

Begin with `guide`: Guide, and the Reasoning that may come before it. `ready_grammars` finds
grammars by name, `schema_documents` holds documents to which schemas may refer, and
`structured_outputs` and `structural_tags` read the guides of vLLM and SGLang.
"""

from specguide.guide.guide import KEY_ORDERS, Guide, Reasoning

__all__ = ["KEY_ORDERS", "Guide", "Reasoning"]
