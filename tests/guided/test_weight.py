"""How much there is to write of a core schema, counted by its keywords."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.common import read_jsonl
from specguide.errors import SpecguideError
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.schema.core.keywords import Value, keywords, weight
from specguide.guided.schema.core.nodes import Node
from specguide.guided.schema.cores import core_schemas


def counted(part: Value) -> int:
    """The weight of a part, counted by what `keywords` says of nodes, which is slower."""
    if isinstance(part, str):
        return 1 + len(part) // 16
    if isinstance(part, (Node, Mapping)):
        named = keywords(part) if isinstance(part, Node) else part
        return 1 + sum(map(counted, named.values())) + sum(len(name) // 16 for name in named)
    return 1 + sum(map(counted, part)) if isinstance(part, (tuple, list)) else 1


def test_weights_are_those_of_keywords(data_dir):
    num_compared = 0
    for record in list(read_jsonl(data_dir / "jsonschemabench.jsonl"))[2::60]:
        try:
            core = next(core_schemas(record["schema"], LLGUIDANCE))
        except (SpecguideError, RecursionError):
            continue
        definitions = counted(core.definitions) if core.definitions else 0
        assert weight(core) == counted(core.root) + definitions
        num_compared += 1
    assert num_compared > 10
