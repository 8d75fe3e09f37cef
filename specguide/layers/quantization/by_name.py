"""Owns ByName, a quantization that differs between maps, and ModuleList, the lists of modules in a
checkpoint's configuration."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import shown
from specguide.layers.quantization.experts import ExpertWeights, create_experts
from specguide.layers.quantization.method import MatrixSpec, ProjectionWeights, Quantization
from specguide.layers.quantization.name_pattern import NamePattern
from specguide.layers.quantization.none import UNQUANTIZED

_NEVER_ROUNDED = ("mlp.gate", "block_sparse_moe.gate", "mlp.router")
_ROUTERS = (*_NEVER_ROUNDED, "router.proj")
SMALL_MAPS = (
    *(*_NEVER_ROUNDED, "mlp.shared_expert_gate"),
    *("linear_attn.in_proj_ba", "linear_attn.in_proj_b", "linear_attn.in_proj_a"),
)
"""Names of experts' routers and of gates, which stay unquantized: there is little to save."""
_PLAIN = {"weight", "bias", "e_score_correction_bias"}
"""The tensors that a router may have where it is not quantized."""

_PATTERN = re.compile(r"re(?:<(?P<within>[^>]*)>)?:(?P<source>.*)", re.DOTALL)
"""`re:` and a pattern; `re<…>:` for a text model inside a larger one, see `within`."""
_MOST_WILDCARDS = 4


@dataclass(frozen=True)
class ModuleList:
    """Modules of a model, as `ignore` and `targets` name them.

    names:     full names
    patterns:  the patterns behind `re:`
    wildcards: patterns in shell syntax
    parts:     names; a module also matches if its name begins or ends with one, up to a dot
    texts:     a module also matches if its name contains one; experts' modules match together, by
               the name of the module that holds them
    """

    names: frozenset[str] = frozenset()
    patterns: tuple[NamePattern, ...] = ()
    wildcards: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> ModuleList:
        """A list of full names, and of patterns behind `re:`. Raises CheckpointError for a wrong
        pattern."""
        return cls(frozenset(entries), _patterns(entries))

    @classmethod
    def of_parts(cls, entries: Iterable[str]) -> ModuleList:
        """Like `of`, but a name also stands for everything inside the module, and may omit the
        names of the modules around it."""
        return cls(frozenset(entries), _patterns(entries), parts=tuple(entries))

    @classmethod
    def of_wildcards(cls, entries: Iterable[str]) -> ModuleList:
        """A list as ModelOpt writes it: with `*`; a name also stands for everything inside the
        module. Raises CheckpointError for an entry with too many `*`."""
        for entry in entries:
            if entry.count("*") > _MOST_WILDCARDS:
                raise CheckpointError(
                    f"{shown(entry)} has more than {_MOST_WILDCARDS} '*', which is not supported"
                )
        return cls(frozenset(entries), wildcards=tuple(entries), parts=tuple(entries))

    def __contains__(self, name: str) -> bool:
        return (
            name in self.names
            or any(name.startswith(f"{part}.") or name.endswith(f".{part}") for part in self.parts)
            or any(text in _without_expert(name) for text in self.texts)
            or any(fnmatchcase(name, wildcard) for wildcard in self.wildcards)
            or any(pattern.matches(name) for pattern in self.patterns)
        )


@dataclass(frozen=True)
class ByName:
    """Each map has the first quantization of `choices` whose modules include it; maps in `ignored`,
    and maps that nothing names, are not quantized."""

    choices: tuple[tuple[ModuleList | None, Quantization], ...]
    ignored: ModuleList = ModuleList()

    def including(self, name: str) -> ByName:
        """The same, except that the map with this full name is not ignored."""
        ignored = replace(self.ignored, names=self.ignored.names - {name})
        return replace(self, ignored=ignored)

    def create_weights(self, spec: MatrixSpec) -> ProjectionWeights:
        """Uninitialised weights. Raises CheckpointError if maps of one matrix have different
        quantizations."""
        return self._common(spec.names).create_weights(spec)

    def create_experts(self, specs: Sequence[MatrixSpec]) -> ExpertWeights:
        """Uninitialised weights. Raises CheckpointError if experts of a layer have different
        quantizations."""
        return create_experts(self._common([name for spec in specs for name in spec.names]), specs)

    def _common(self, names: Sequence[str]) -> Quantization:
        found = {name: self._choice(name) for name in names}
        first, *others = found
        for other in others:
            if found[other] != found[first]:
                raise CheckpointError(
                    f"{shown(first)} and {shown(other)} are loaded as one matrix, but "
                    "'quantization_config' quantizes them differently: list both or none of them "
                    "as not quantized"
                )
        return found[first]

    def _choice(self, name: str) -> Quantization:
        if name not in self.ignored:
            for modules, quantization in self.choices:
                if modules is None or name in modules:
                    return quantization
        return UNQUANTIZED


def check_known(stated: Mapping[str, Any], known: Container[str]) -> None:
    """Raise CheckpointError for a field of `quantization_config` that is not known and asks for
    something."""
    for name, value in stated.items():
        if name not in known and value not in (None, False, [], {}):
            raise CheckpointError(
                f"'quantization_config': {shown(name)} {shown(value)} is not supported"
            )


def with_plain_routers(
    quantization: Quantization, names: Callable[[], Iterable[str]]
) -> Quantization:
    """The same, except that experts' routers are not quantized which the checkpoint stores without
    scales. Its configuration lists them only where transformers had them as linear layers. names:
    gives those of its tensors, as a checkpoint of the text model alone has them"""
    if not isinstance(quantization, ByName):
        return quantization
    kinds = defaultdict[str, set[str]](set)
    for name in names():
        stem, _, kind = name.rpartition(".")
        if stem.endswith(_ROUTERS):
            kinds[stem].add(kind)
    plain = {stem for stem, found in kinds.items() if "weight" in found and found <= _PLAIN}
    ignored = replace(quantization.ignored, names=quantization.ignored.names | plain)
    return replace(quantization, ignored=ignored)


def module_names(stated: Mapping[str, Any], name: str) -> list[str]:
    """The list of modules that a configuration states as `name`; empty if it is missing or null.
    Raises CheckpointError for anything else."""
    entries = stated.get(name)
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise CheckpointError(f"{name!r} must be a list of names, found {shown(entries)}")
    return entries


def _without_expert(name: str) -> str:
    """Cuts "mlp.experts.0.gate_proj" to "mlp.experts.", so that AWQ's "gate" is only the router."""
    holder, mark, _ = name.partition(".experts.")
    return holder + mark


def within(entry: str, prefixes: Iterable[str]) -> str:
    """An entry of a list of modules, rewritten for the text model alone. A pattern is matched with
    the names that modules have in the whole model; other entries are unchanged. prefixes: what
    `model.` is called in the whole model"""
    return f"re<{','.join(prefixes)}>:{entry[3:]}" if entry.startswith("re:") else entry


def _patterns(entries: Iterable[str]) -> tuple[NamePattern, ...]:
    found = (_PATTERN.fullmatch(entry) for entry in entries)
    patterns = tuple(
        NamePattern(one["source"], tuple(filter(None, (one["within"] or "").split(","))))
        for one in found
        if one is not None
    )
    for pattern in patterns:
        pattern.check()
    return patterns
