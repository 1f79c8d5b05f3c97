"""Values that are written into a statement and never sent beside it."""

from __future__ import annotations

from django.db.models import Expression, IntegerField


class LiteralNumber(Expression):
    """A number in the statement itself: a parameter would hide from a kept plan that a partial index is meant."""

    def __init__(self, number: int) -> None:
        self.number = int(number)
        super().__init__(output_field=IntegerField())

    def as_sql(self, compiler: object, connection: object) -> tuple[str, tuple[()]]:
        """The number as SQL text, without a parameter."""
        return str(self.number), ()
