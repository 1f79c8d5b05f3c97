"""What a JSON Schema validator finds, in words for people and at the place where they look for it.

Invariant owned: a field that is missing or not expected is named at the field itself, and no reason repeats the data,
which may be long or private.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from workflows.wording.messages import Either, Reason, ngettext_lazy
from workflows.wording.messages import gettext_noop as _

if TYPE_CHECKING:
    from jsonschema import ValidationError

Errors = dict[str, list[str]]

#: More errors than anybody reads; a long list against a wrong schema has one per item.
MAX_ERRORS = 1000
#: Of names that are not expected, each a place of its own.
_MOST_NAMES = 20

REQUIRED = Reason(_("is required"))
UNEXPECTED = Reason(_("is not expected"))
TOO_LARGE = Reason(_("holds something too large to be checked"))
MORE = Reason(_("more is wrong than the first %(n)s problems listed here"), {"n": str(MAX_ERRORS)})

#: As a keyword, for a choice of which nothing is told but that no form fits.
NONE_OF = "no form fits"

_TYPE_WORDS = {
    "string": Reason(_("text")),
    "integer": Reason(_("a whole number")),
    "number": Reason(_("a number")),
    "boolean": Reason(_("true or false")),
    "array": Reason(_("a list")),
    "object": Reason(_("an object")),
    "null": Reason("null"),
}


def collect_error(error: ValidationError, errors: Errors) -> None:
    """Put one finding of the validator where a person looks for it."""
    place = list(error.absolute_path)
    rule, value, given = _read_rule(error)
    schema_path = list(error.absolute_schema_path)
    if len(schema_path) > 1 and schema_path[-2] == "propertyNames":
        told = Reason(_("is not allowed as a name: %(why)s"), {"why": _explain(error)})
        add_reason(errors, join_place([*place, given]), told)
    elif rule == "required" and isinstance(value, list):
        for name in value:
            if name not in given:
                add_reason(errors, join_place([*place, name]), REQUIRED)
    elif rule in ("dependentRequired", "dependencies") and isinstance(value, dict) and not error.context:
        for name, needed in value.items():
            for other in [needed] if isinstance(needed, str) else needed if isinstance(needed, list) else ():
                if name in given and other not in given:
                    told = Reason(_("is required together with %(name)s"), {"name": str(name)})
                    add_reason(errors, join_place([*place, other]), told)
    elif rule in ("additionalProperties", "unevaluatedProperties") and isinstance(given, dict):
        names: list[str] = getattr(error, "names", None) or []
        for name in names[:_MOST_NAMES]:
            add_reason(errors, join_place([*place, name]), UNEXPECTED)
        if len(names) > _MOST_NAMES:
            told = Reason(_("has %(n)s more names that are not expected"), {"n": str(len(names) - _MOST_NAMES)})
            add_reason(errors, join_place(place), told)
        elif not names:
            add_reason(errors, join_place(place), Reason(_("has names that are not expected")))
    elif rule in ("anyOf", "oneOf") and error.context:
        _collect_choice(error, errors)
    else:
        add_reason(errors, join_place(place), _explain(error))


def _read_rule(error: ValidationError) -> tuple[str | None, Any, Any]:
    """The keyword, what it says, and the value that breaks it; a schema that is just `false` has no keyword."""
    rule: Any = error.validator
    return rule, error.validator_value, error.instance


def _collect_choice(error: ValidationError, errors: Errors) -> None:
    """`T | None` and its like: name the branch that was meant, where that can be told."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    place = list(error.absolute_path)
    of_type = {key: _find_type_mismatch(inner, place) for key, inner in branches.items()}
    if all(of_type.values()):
        words = dict.fromkeys(word for expected in of_type.values() for word in expected)
        add_reason(errors, join_place(place), Reason(_("must be %(what)s"), {"what": Either(words)}))
        return
    likely = [inner for key, inner in branches.items() if not of_type[key]]
    if len(likely) > 1:
        # Forms that a constant tells apart, such as {"kind": "card", …} and {"kind": "cash", …}.
        likely = [inner for inner in likely if not any(each.validator in ("const", "enum") for each in inner)] or likely
    if len(likely) == 1:
        for inner in likely[0]:
            collect_error(inner, errors)
    elif all(len(inner) == 1 and list(inner[0].absolute_path) == place for inner in likely):
        words = dict.fromkeys(_explain(inner[0]) for inner in likely)
        add_reason(errors, join_place(place), Either(words))
    else:
        add_reason(errors, join_place(place), _tell_none(len(branches)))


def _tell_none(forms: int) -> Reason:
    return Reason(_("fits none of the %(n)s forms that are allowed"), {"n": str(forms)})


def _find_type_mismatch(branch: list[ValidationError], place: list[Any]) -> list[str]:
    for error in branch:
        if error.validator == "type" and list(error.absolute_path) == place:
            return _name_types(error.validator_value)
    return []


def _name_types(value: Any) -> list[str]:
    return [_TYPE_WORDS.get(name, str(name)) for name in ([value] if isinstance(value, str) else value)]


def _explain(error: ValidationError) -> Reason:
    rule, value, _given = _read_rule(error)
    match rule:
        case "type":
            return Reason(_("must be %(what)s"), {"what": Either(_name_types(value))})
        case "enum" if isinstance(value, list):
            if len(value) > 20:
                return Reason(_("is none of the choices"))
            return Reason(_("must be one of %(choices)s"), {"choices": Either(map(_quote, value))})
        case "const":
            return Reason(_("must be %(what)s"), {"what": _quote(value)})
        case "required":
            return REQUIRED
        case "format":
            return Reason(_("is not a valid %(format)s"), {"format": str(value)})
        case "pattern":
            return Reason(_("does not match the pattern %(pattern)s"), {"pattern": str(value)})
        case "minLength" if value == 1:
            return Reason(_("must not be empty"))
        case "no form fits" if isinstance(value, list):
            return _tell_none(len(value))
        case "oneOf":
            return Reason(_("fits several of the forms that are allowed, and must fit exactly one"))
    if rule is None or rule in ("not", "disallow", "properties"):
        return Reason(_("is not allowed"))
    told = _LIMITS.get(rule)
    if told is None:
        return Reason(_("breaks the rule %(rule)s"), {"rule": f"{rule} {_quote(value)}"})
    if isinstance(told, tuple):
        return Reason(told, {"limit": _quote(value)}, value if isinstance(value, int) else 0)
    return Reason(told, {"limit": _quote(value)} if "%" in told else None)


_LIMITS: Mapping[str, str | tuple[str, str]] = {
    "minimum": _("must be at least %(limit)s"),
    "maximum": _("must be at most %(limit)s"),
    "exclusiveMinimum": _("must be more than %(limit)s"),
    "exclusiveMaximum": _("must be less than %(limit)s"),
    "multipleOf": _("must be a multiple of %(limit)s"),
    "minLength": ngettext_lazy("must have at least %(limit)s character", "must have at least %(limit)s characters"),
    "maxLength": ngettext_lazy("must have at most %(limit)s character", "must have at most %(limit)s characters"),
    "minItems": ngettext_lazy("must have at least %(limit)s item", "must have at least %(limit)s items"),
    "maxItems": ngettext_lazy("must have at most %(limit)s item", "must have at most %(limit)s items"),
    "uniqueItems": _("must not hold the same item twice"),
    "minProperties": ngettext_lazy("must have at least %(limit)s property", "must have at least %(limit)s properties"),
    "maxProperties": ngettext_lazy("must have at most %(limit)s property", "must have at most %(limit)s properties"),
    "contains": _("holds no item of the kind that it must hold"),
}


def _quote(value: Any) -> str:
    return f"{json.dumps(value, ensure_ascii=False):.80}"


def join_place(path: Iterable[Any]) -> str:
    return ".".join(map(str, path))


def add_reason(errors: Errors, place: str, reason: str) -> None:
    reasons = errors.setdefault(place, [])
    if reason not in reasons:
        reasons.append(reason)


def bound_errors(errors: Errors) -> Errors:
    """No more places than anybody reads."""
    if len(errors) <= MAX_ERRORS:
        return errors
    bounded = dict(list(errors.items())[:MAX_ERRORS])
    add_reason(bounded, "", MORE)
    return bounded
