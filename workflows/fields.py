"""Column types of our own: enums stored as small integers, lists of text, a state that may mean "the input".

Invariant owned: people and queries see words ("awaiting"), rows and indexes hold two bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models

from workflows.lifecycle import (
    CALL_CODES,
    CARDINALITY_CODES,
    CODES,
    EVENT_CODES,
    INTERACTION_CODES,
    UNIT_CODES,
    UNIT_PHASE_CODES,
    Call,
    Cardinality,
    Event,
    InteractionStatus,
    Status,
    UnitPhase,
    UnitStatus,
)

if TYPE_CHECKING:
    _SmallInteger = models.SmallIntegerField[Any, Any]
else:
    _SmallInteger = models.SmallIntegerField


class _CodedField(_SmallInteger):
    """Reads and writes members of a StrEnum; stores their code."""

    enum: type[StrEnum]
    codes: Mapping[Any, int]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["choices"] = [(member.value, member.value.replace("_", " ")) for member in self.enum]
        super().__init__(*args, **kwargs)
        self._members = {code: member for member, code in self.codes.items()}

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("choices", None)
        return name, path, args, kwargs

    def from_db_value(self, value: int | None, expression: object, connection: object) -> StrEnum | None:
        return None if value is None else self._members[value]

    def to_python(self, value: Any) -> Any:
        if value is None or isinstance(value, self.enum):
            return value
        try:
            return self._members[value] if isinstance(value, int) else self.enum(value)
        except (KeyError, ValueError) as error:
            raise ValidationError(f"{value!r} is none of {', '.join(self.enum)}") from error

    def get_prep_value(self, value: Any) -> int | None:
        member = self.to_python(value)
        return None if member is None else self.codes[member]

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.value_from_object(obj))

    @property
    def validators(self) -> list[Any]:
        """The integer range validators of the parent would compare words with numbers."""
        return []


class StatusField(_CodedField):
    """An instance's status."""

    enum = Status
    codes = CODES


class EventField(_CodedField):
    """A ledger row's kind."""

    enum = Event
    codes = EVENT_CODES


class UnitStatusField(_CodedField):
    """An await unit's status."""

    enum = UnitStatus
    codes = UNIT_CODES


class UnitPhaseField(_CodedField):
    """How far a unit of items is."""

    enum = UnitPhase
    codes = UNIT_PHASE_CODES


class InteractionStatusField(_CodedField):
    """An interaction's status."""

    enum = InteractionStatus
    codes = INTERACTION_CODES


class CardinalityField(_CodedField):
    """A unit's cardinality."""

    enum = Cardinality
    codes = CARDINALITY_CODES


class CallField(_CodedField):
    """A checkpoint's kind."""

    enum = Call
    codes = CALL_CODES


if TYPE_CHECKING:
    _AnyField = models.Field[Any, Any]
    _AnyLookup = models.Lookup[Any]
else:
    _AnyField = models.Field
    _AnyLookup = models.Lookup


class TextListField(_AnyField):
    """A list of texts as text[]. Django's ArrayField would oblige every project to install django.contrib.postgres."""

    def db_type(self, connection: Any) -> str:
        return "text[]"

    def value_to_string(self, obj: models.Model) -> str:
        return json.dumps(self.value_from_object(obj))

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value


@TextListField.register_lookup
class ContainsAll(_AnyLookup):
    """`names__contains=["paid"]`: the list has all of these."""

    lookup_name = "contains"

    def get_prep_lookup(self) -> list[str]:
        return [self.rhs] if isinstance(self.rhs, str) else list(self.rhs)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return f"{left} @> {right}::text[]", (*left_params, *right_params)


class InheritedJSON:
    """The type of INHERITED."""

    def __repr__(self) -> str:
        return "INHERITED"

    def __reduce__(self) -> str:
        return "INHERITED"  # copies and pickles are the one value: it is compared by identity


#: What a state column holding SQL NULL reads as: "never changed, still equal to the input".
INHERITED = InheritedJSON()


class StateField(models.JSONField):
    """JSON whose SQL NULL differs from a JSON null, because it stands for "equal to the input"."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return INHERITED if value is None else super().from_db_value(value, expression, connection)

    def value_from_object(self, obj: models.Model) -> Any:
        """For fixtures and forms: nothing stored is nothing."""
        value = super().value_from_object(obj)
        return None if value is INHERITED else value
