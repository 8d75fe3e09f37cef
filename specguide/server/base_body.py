"""Owns what all bodies of requests have in common: nulls, fields that are known and not honoured,
and those that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from specguide.server.fields import NoEffect, Table

_MOST_UNKNOWN = 64


class Body(BaseModel):
    """A body, or a part of one. A null stands for a field that is left out.

    beside: fields that are known and not honoured
    """

    model_config = ConfigDict(strict=True)
    beside: ClassVar[Table] = {}
    _unknown: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _knows_its_fields(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(values, dict):
            return validate(values)
        known = {field.alias or name: field for name, field in cls.model_fields.items()}
        cls._check_beside(values, known)
        unknown = tuple(
            name
            for name, value in values.items()
            if value is not None and name not in known and name not in cls.beside
        )
        if len(unknown) > _MOST_UNKNOWN:
            told = {"count": len(unknown), "most": _MOST_UNKNOWN}
            words = "it has {count} fields that nobody knows, and {most} are the most"
            raise PydanticCustomError("unknown_fields", words, told)
        given = {name: values[name] for name in known if name in values}
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
                told = {"name": name, "why": verdict.why}
                raise PydanticCustomError("field", "{name} is not supported: {why}", told)

    def unknown_fields(self, place: str = "") -> Iterator[str]:
        """Fields that nobody knows, as a client would name them. place: before each name"""
        for name in self._unknown:
            yield place + name
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, Body):
                yield from value.unknown_fields(f"{place}{field.alias or name}.")
