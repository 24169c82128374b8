"""Converts validation errors into errors that callers can act on."""

import difflib
from collections.abc import Collection, Iterable
from typing import Any, Final, get_args

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from libs.contracts.errors import ErrorDetail, ValidationFailed, dotted_path, invalid_field, validation_message

MOST_DETAILS: Final = 50
# Each error is compared with all others, and a body can contain tens of thousands of errors.
_MOST_ERRORS: Final = 200
_LONGEST_NAME: Final = 200


def required_object(values: Any) -> dict[str, Any]:
    """Returns the body. Raises ``ValidationFailed`` if it isn't an object."""
    if isinstance(values, dict):
        return values
    raise invalid_field([], "the body must be an object", kind="object_type", hint="send an object with named fields")


def invalid(problem: ValidationError, values: Any, model: type[BaseModel]) -> ValidationFailed:
    """Converts Pydantic's errors for a body to the error that the caller receives."""
    errors = problem.errors(include_url=False, include_input=False)[:_MOST_ERRORS]
    details = _without_noise([_detail(error, values, model) for error in errors])[:MOST_DETAILS]
    first = details[0]
    path = dotted_path(first.loc)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    where = f"{path}: " if path else ""
    return ValidationFailed(f"Invalid body: {where}{first.message}{more}.", details=details)


def shortened(loc: Iterable[int | str]) -> list[str | int]:
    """Shortens the names in a location. They come from the caller and can be as long as the body."""
    return [part if isinstance(part, int) else part[:_LONGEST_NAME] for part in loc]


def _detail(error: ErrorDetails, values: Any, model: type[BaseModel]) -> ErrorDetail:
    return ErrorDetail(
        loc=shortened(_location(error["loc"], values, error["type"])),
        type=error["type"],
        message=validation_message(error)[:500],
        hint=_hint(error, model),
    )


def _location(loc: tuple[int | str, ...], values: Any, kind: str) -> list[str | int]:
    """Removes the names of union branches, which Pydantic adds to locations."""
    path = _path(loc, values, missing=kind == "missing")
    while path is None:
        loc = loc[:-1]
        path = _path(loc, values, missing=False)
    return path


def _path(loc: tuple[int | str, ...], values: Any, *, missing: bool, passed: bool = False) -> list[str | int] | None:
    """Returns the parts of a location that exist in the values, or None if the last part doesn't exist.

    If ``missing``, the last part is an absent field. If ``passed``, the previous part was skipped as a union branch.
    """
    if not loc:
        return []
    part, rest = loc[0], loc[1:]
    if not rest:
        found = isinstance(values, dict) and part not in values if missing else _holds(values, part)
        return [part] if found else None
    below = _path(rest, values[part], missing=missing) if _holds(values, part) else None
    beside = _path(rest, values, missing=missing, passed=True)
    # A branch can have the same name as a field, as in ``{"type": "text", "text": …}``.
    if beside is not None and (below is None or (not passed and _is_branch(values, part))):
        return beside
    return None if below is None else [part, *below]


def _is_branch(values: Any, part: int | str) -> bool:
    return isinstance(values, dict) and part in (values.get("type"), values.get("role"))


def _holds(values: Any, part: int | str) -> bool:
    if isinstance(values, dict):
        return part in values
    return isinstance(values, list) and isinstance(part, int) and part < len(values)


def _without_noise(details: list[ErrorDetail]) -> list[ErrorDetail]:
    """Drops errors about a value's type if another type of the union led to more specific errors."""
    kept = []
    for detail in details:
        deeper = any(
            other is not detail
            and other.loc[: len(detail.loc)] == detail.loc
            and (len(other.loc) > len(detail.loc) or not other.type.endswith("_type"))
            for other in details
        )
        if not (deeper and detail.type.endswith("_type") and detail.loc):
            kept.append(detail)
    return kept or details


def _hint(error: ErrorDetails, model: type[BaseModel]) -> str | None:
    kind = error["type"]
    if kind == "missing":
        return "add this field"
    if kind == "extra_forbidden":
        return did_you_mean(str(error["loc"][-1]), _fields_at(model, error["loc"][:-1])) or "remove this field"
    if "hint" in error.get("ctx", {}):
        return str(error["ctx"]["hint"])
    if kind.endswith("_type"):
        return 'types aren\'t coerced: "1" is text, 1 is a number'
    return None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Returns a hint with the closest known word, or None if no known word is close."""
    close = difflib.get_close_matches(word[:100], list(known), n=1)
    return did_you_mean_any(close) if close else None


def did_you_mean_any(names: Iterable[str]) -> str:
    return f"did you mean {' or '.join(map(repr, names))}?"


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> Collection[str]:
    """Returns the names of the fields at a location in the body."""
    if issubclass(model, RootModel) and len(loc) == 1:
        for alternative in get_args(model.model_fields["root"].annotation):
            if loc[0] in get_args(alternative.model_fields["type"].annotation):
                return tuple(alternative.model_fields)
    if not loc:
        return tuple(model.model_fields)
    field = model.model_fields.get(str(loc[0]))
    annotation = None if field is None else field.annotation
    objects = [each for each in (annotation, *get_args(annotation)) if _is_object(each)]
    return _fields_at(objects[0], loc[1:]) if len(objects) == 1 else ()


def _is_object(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel) and not issubclass(annotation, RootModel)
