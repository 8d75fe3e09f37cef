"""Owns the base of all request bodies: it handles nulls, known fields that are not honoured, and
unknown fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from specguide.server.bodies.fields import NoEffect, Table

_MOST_UNKNOWN = 64


@cache
def _known(kind: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields by the names that clients use."""
    return {field.alias or name: field for name, field in kind.model_fields.items()}


@cache
def _integers(kind: type[BaseModel]) -> frozenset[str]:
    """The fields that may be an integer but no other number, by the names that clients use."""
    kinds = {
        name: set(get_args(field.annotation)) or {field.annotation}
        for name, field in _known(kind).items()
    }
    return frozenset(name for name, some in kinds.items() if int in some and float not in some)


def _as_integer(value: Any) -> Any:
    """A whole number as an int, since clients that divide write 512.0; any other value
    unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def given(fields: Mapping[str, Any], name: str, default: Any) -> Any:
    """A field's value in an object of a body that is read by hand. A null counts as a field that is
    left out."""
    value = fields.get(name)
    return default if value is None else value


class Body(BaseModel):
    """A body, or a part of one. A null counts as a field that is left out, and 512.0 as 512.

    beside: known fields that are not honoured
    """

    model_config = ConfigDict(strict=True)
    beside: ClassVar[Table] = {}
    _unknown: tuple[str, ...] = PrivateAttr(())

    @property
    def is_quick(self) -> bool:
        """Whether parsing a short body of this kind takes almost no time."""
        return False

    @model_validator(mode="wrap")
    @classmethod
    def _knows_its_fields(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(values, dict):
            return validate(values)
        known = _known(cls)
        cls._check_beside(values, known)
        unknown = tuple(
            name
            for name, value in values.items()
            if value is not None and name not in known and name not in cls.beside
        )
        if len(unknown) > _MOST_UNKNOWN:
            facts = {"count": len(unknown), "most": _MOST_UNKNOWN}
            words = "it may have at most {most} unknown fields, found {count}"
            raise PydanticCustomError("unknown_fields", words, facts)
        given = {name: values[name] for name in known if name in values}
        given |= {name: _as_integer(given[name]) for name in _integers(cls) & given.keys()}
        made = validate({n: v for n, v in given.items() if v is not None or known[n].is_required()})
        made._unknown = unknown
        return made

    @classmethod
    def _check_beside(cls, values: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        for name, verdict in cls.beside.items():
            value = values.get(name)
            if name in known or value is None or isinstance(verdict, NoEffect):
                continue
            if not verdict.takes(value):
                facts = {"name": name, "why": verdict.why, "code": verdict.code}
                raise PydanticCustomError("field", "{name} is not supported: {why}", facts)

    def unknown_fields(self, place: str = "") -> Iterator[str]:
        """The unknown fields by the names that clients use. place: put before each name"""
        for name in self._unknown:
            yield place + name
        for name, value in self.__dict__.items():
            if isinstance(value, Body):
                alias = type(self).model_fields[name].alias
                yield from value.unknown_fields(f"{place}{alias or name}.")
