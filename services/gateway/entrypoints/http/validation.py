"""Validation of bodies and queries, with errors in words for their author."""

import difflib
import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, get_args
from urllib.parse import parse_qsl

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.timestamps import parse_time

M = TypeVar("M", bound=BaseModel)
LONGEST_LIFETIME: Final = timedelta(days=3650)
MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
MAX_OFFSET: Final = 2**31 - 1
MAX_CURSOR: Final = 1_000
_DIGITS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_MOST_DETAILS: Final = 50
PUBLIC_KEYS: Final = ("agent_key", "connection_key")


def required_object(values: Any) -> dict[str, Any]:
    """The body as an object. Raises ``ValidationFailed`` for any other value."""
    if isinstance(values, dict):
        return values
    message = "the body must be an object"
    detail = ErrorDetail(loc=[], type="object_type", message=message, hint="send fields with names")
    raise ValidationFailed(f"The body is not valid: {message}.", details=[detail])


def invalid(problem: ValidationError, values: Any, model: type[BaseModel]) -> ValidationFailed:
    """Pydantic's findings as ours."""
    found = [_detail(error, values, model) for error in problem.errors(include_url=False, include_input=False)]
    details = _without_noise(found)[:_MOST_DETAILS]
    first = details[0]
    place = ".".join(str(part) for part in first.loc)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    where = f"{place}: " if place else ""
    return ValidationFailed(f"The body is not valid: {where}{first.message}{more}.", details=details)


def _detail(error: ErrorDetails, values: Any, model: type[BaseModel]) -> ErrorDetail:
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if error["type"] == "extra_forbidden":
        message = "there is no such field"
    return ErrorDetail(
        loc=_place(error["loc"], values, error["type"]),
        type=error["type"],
        message=message[:500],
        hint=_hint(error, model),
    )


def _place(loc: tuple[int | str, ...], values: Any, kind: str) -> list[str | int]:
    """The place in the document itself: pydantic also names the branches of unions that it went through."""
    place = _path(loc, values, missing=kind == "missing")
    while place is None:
        loc = loc[:-1]
        place = _path(loc, values, missing=False)
    return place


def _path(loc: tuple[int | str, ...], values: Any, *, missing: bool, passed: bool = False) -> list[str | int] | None:
    """The place that ends with the last part, which may be ``missing``; None where nothing leads to it.

    ``passed``: a branch of these values was gone through already.
    """
    if not loc:
        return []
    part, rest = loc[0], loc[1:]
    if not rest:
        found = isinstance(values, dict) and part not in values if missing else _holds(values, part)
        return [part] if found else None
    below = _path(rest, values[part], missing=missing) if _holds(values, part) else None
    beside = _path(rest, values, missing=missing, passed=True)
    # A branch may have the name of a field, as the part ``{"type": "text", "text": …}`` has.
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
    """Leave out that a value is not of one type when it was found to be wrong as the other."""
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
        names = list(_fields_at(model, error["loc"][:-1]))
        close = difflib.get_close_matches(str(error["loc"][-1])[:100], names, n=1)
        return f"did you mean '{close[0]}'?" if close else "remove this field"
    if kind.endswith("_type"):
        return "types are taken literally: no text in place of numbers or the other way round"
    return None


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> Collection[str]:
    """The names of the fields of a body; below it, only those of the alternatives of a union."""
    if issubclass(model, RootModel) and len(loc) == 1:
        for alternative in get_args(model.model_fields["root"].annotation):
            if loc[0] in get_args(alternative.model_fields["type"].annotation):
                return tuple(alternative.model_fields)
    return () if loc else tuple(model.model_fields)


def expiry(text: str | None, now: datetime) -> datetime | None:
    """The ``expires_at`` of a body. Raises ``ValidationFailed`` when it is past or further off than ten years."""
    if text is None:
        return None
    moment = parse_time(text)
    if not now < moment < now + LONGEST_LIFETIME:
        message = f"must be in the future, at most {LONGEST_LIFETIME.days} days from now"
        detail = ErrorDetail(loc=["expires_at"], type="moment_range", message=message, hint="use another time")
        raise ValidationFailed(f"The body is not valid: expires_at {message}.", details=[detail])
    return moment


def cursor_of(query: bytes) -> str | None:
    """``after`` of a query. Raises ``ValidationFailed``."""
    cursor = query_values(query).get("after")
    if cursor is not None and not 0 < len(cursor) <= MAX_CURSOR:
        message = f"must have 1 to {MAX_CURSOR} characters"
        raise ValidationFailed(message, details=[ErrorDetail(loc=["after"], type="invalid_cursor", message=message)])
    return cursor


def page_of(query: bytes, others: Collection[str] = ()) -> tuple[int, int]:
    """``limit`` and ``offset`` of a query that may have some others as well. Raises ``ValidationFailed``."""
    given = check_parameters(query, ("limit", "offset", *others))
    limit = number_of(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    return limit, number_of(given, "offset", 0, 0, MAX_OFFSET)


def check_parameters(query: bytes, known: Sequence[str]) -> dict[str, str]:
    """The query's parameters. Raises ``ValidationFailed`` for others: a misspelt filter would answer with everything.

    Public keys may stand in any query.
    """
    given = query_values(query)
    for name in given:
        if name not in known and name not in PUBLIC_KEYS:
            raise _unknown_parameter(name, known)
    return given


def _unknown_parameter(name: str, known: Sequence[str]) -> ValidationFailed:
    shown, message = name[:100], "there is no such parameter"
    close = difflib.get_close_matches(shown, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"these are taken: {', '.join(known) or 'none'}"
    detail = ErrorDetail(loc=["query", shown], type="extra_forbidden", message=message, hint=hint)
    return ValidationFailed(f"The query is not valid: {shown}: {message}.", details=[detail])


def query_values(query: bytes) -> dict[str, str]:
    """The query's parameters; of one given twice, the last counts."""
    if not query:
        return {}
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))


def chosen_from(query: bytes, names: Collection[str]) -> dict[str, str]:
    """Selects the query's parameters with these names."""
    given = query_values(query) if names else {}
    # A value with a NUL is nothing's; PostgreSQL would refuse the whole statement for it.
    return {name: given[name].replace("\0", "\ufffd") for name in names if name in given}


def number_of(given: dict[str, str], name: str, default: int, low: int, high: int) -> int:
    """A whole number among the query's parameters. Raises ``ValidationFailed``."""
    text = given.get(name)
    if text is None:
        return default
    if _DIGITS.fullmatch(text) and low <= int(text) <= high:
        return int(text)
    message = f"must be a whole number from {low} to {high}"
    detail = ErrorDetail(loc=["query", name], type="int_range", message=message, hint=f"{name}={default}")
    raise ValidationFailed(f"The query is not valid: {name} {message}.", details=[detail])
