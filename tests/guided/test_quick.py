"""Frozen dataclasses that are made quickly are as others, but for assignments."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import pytest

from specguide.guided.quick import hashed_once, quick


@dataclass(frozen=True)
class Usual:
    left: int
    right: tuple[str, ...] = ("a",)
    more: dict[str, int] = field(default_factory=dict, compare=False)


@quick
@dataclass(frozen=True)
class Quick:
    left: int
    right: tuple[str, ...] = ("a",)
    more: dict[str, int] = field(default_factory=dict, compare=False)


def test_they_have_the_same_fields_defaults_equality_and_hash() -> None:
    assert [(one.name, one.default, one.compare) for one in fields(Quick)] == [
        (one.name, one.default, one.compare) for one in fields(Usual)
    ]
    assert vars(Quick(1)) == vars(Usual(1))
    assert vars(Quick(1, right=())) == vars(Usual(1, right=()))
    assert Quick(1, more={"a": 1}) == Quick(1) != Quick(2)
    assert hash(Quick(1)) == hash(Usual(1))
    assert replace(Quick(1), left=2) == Quick(2)
    assert Quick(1).more is not Quick(1).more
    assert repr(Quick(1)) == repr(Usual(1)).replace("Usual", "Quick")
    with pytest.raises(TypeError, match="left"):
        Quick()  # type: ignore[call-arg]


def test_what_would_not_be_called_is_refused() -> None:
    class Checked(Usual):
        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="Checked has a __post_init__"):
        quick(Checked)


def test_a_kept_hash_is_the_hash() -> None:
    calls = []

    class Inside:
        def __hash__(self) -> int:
            calls.append(1)
            return 7

    @hashed_once
    @dataclass(frozen=True)
    class Tree:
        inside: Inside

    tree = Tree(Inside())
    assert hash(tree) == hash((tree.inside,))
    calls.clear()
    assert hash(tree) == hash(tree)
    assert not calls
    assert tree == replace(tree)
