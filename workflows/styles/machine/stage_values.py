"""Values of earlier stages, as a machine's functions read them.

Lives here: JSON objects with their fields as attributes. Must not live here: which stage a value comes from. Invariants
owned: what an author reads here cannot be changed through it; a field that is not there is answered with its place
("steps.payment has no field …").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from workflows.exceptions import InvalidData, show
from workflows.schemas.schema import Schema
from workflows.units.item_results import ItemResult

if TYPE_CHECKING:
    from workflows.styles.machine.machine_context import MachineContext


class NotThere(AttributeError, KeyError):
    """A stage or field that was asked for and is not there; the message says where."""

    def __str__(self) -> str:
        return str(self.args[0])  # and not its repr, as a KeyError has it


class View(dict[str, Any]):
    """A JSON object of an earlier stage: fields as attributes, or as a dict's items.

    A field wins over a method of dict that has its name, so `order.items` is what the stage returned.
    """

    __slots__ = ("_holdpoint_ctx", "_holdpoint_place")

    def __init__(self, fields: Mapping[str, Any], place: str, ctx: MachineContext | None = None) -> None:
        super().__init__({name: wrap_value(value, f"{place}.{name}") for name, value in fields.items()})
        object.__setattr__(self, "_holdpoint_place", place)
        object.__setattr__(self, "_holdpoint_ctx", ctx)

    def __getattribute__(self, name: str) -> Any:
        # What a partner sent may be called anything: a name of ours is not to be taken by it.
        if not name.startswith("_") and dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        place = object.__getattribute__(self, "_holdpoint_place")
        ctx: MachineContext | None = object.__getattribute__(self, "_holdpoint_ctx")
        if ctx is not None and name in ("_resume_url", "_resume_token"):
            return getattr(ctx.callback(place.removeprefix("steps.")), name[1:])
        raise NotThere(_tell_missing(self, name))

    def __missing__(self, name: object) -> NoReturn:
        raise NotThere(_tell_missing(self, name))

    def __reduce_ex__(self, protocol: object) -> Any:
        return dict, (make_plain(self),)  # a copy is the copier's own, to do with as he likes

    def _refuse(self, *_: object, **__: Any) -> NoReturn:
        raise TypeError("what an earlier stage returned cannot be changed; make a copy: dict(…)")

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def make_plain(value: object) -> Any:
    """Views as the dicts they show, so that a stage may return what an earlier one did, or parts of it."""
    if isinstance(value, dict):
        return {name: make_plain(one) for name, one in dict.items(value)}
    if isinstance(value, list | tuple):
        return [make_plain(one) for one in value]
    if isinstance(value, ItemResult):
        return {"status": str(value.status), "output": make_plain(value.output)}
    return value


def read_typed(schema: Schema, stored: object, place: str) -> Any:
    """The typed value of stored JSON; an error names the place."""
    try:
        return schema.cast(stored)
    except InvalidData as error:
        raise InvalidData({f"{place}.{at}".rstrip("."): reasons for at, reasons in error.errors.items()}) from error


def wrap_value(value: object, place: str) -> Any:
    """A stored value, so that nobody changes it; the items of a list each."""
    if type(value) is dict:
        return View(value, place)
    if type(value) is list:
        return [wrap_value(one, f"{place}[{index}]") for index, one in enumerate(value)]
    return value


def _tell_missing(view: View, name: object) -> str:
    place = object.__getattribute__(view, "_holdpoint_place")
    known = ", ".join(dict.keys(view))
    return f"{place} has no field {show(name)}; it has {known or 'none'}"
