"""The query of ``GET /usage/``: which hours, and by what they are told apart."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from fastapi import Request

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.timestamps import parse_time
from services.gateway.domain.usage import UsageGroup
from services.gateway.entrypoints.http.reference.described import Described
from services.gateway.entrypoints.http.reference.parameters import OFFSET, query_parameter
from services.gateway.entrypoints.http.validation import MAX_OFFSET, check_parameters, number_of

_NAMES: Final = ("from", "to", "group_by", "limit", "offset")
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_LONGEST: Final = 366
_DEFAULT_DAYS: Final = 30
_DEFAULT_LIMIT: Final = 200
_MAX_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class UsageRequest:
    """Whole hours from ``begin`` to before ``end``; None where the caller names none."""

    begin: datetime | None
    end: datetime | None
    groups: tuple[UsageGroup, ...]
    limit: int
    offset: int

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """By default the last 30 days, today included. Raises ``ValidationFailed`` for no span, or one too long."""
        end = self.end or _midnight(now.date() + _DAY)
        begin = self.begin or end - _DEFAULT_DAYS * _DAY
        if not timedelta(0) < end - begin <= _LONGEST * _DAY:
            raise _invalid("from", f"must lie before to, by {_LONGEST} days at most", "from=2026-05-01&to=2026-05-31")
        return begin, end


class UsageParameters(Described):
    """Dependency: the parameters of the query. Raises ``ValidationFailed`` for anything else in it."""

    errors = (422,)
    parameters = (
        query_parameter(
            "from", "The first day (UTC), or a timestamp; counted by whole hours. 30 days back when left out."
        ),
        query_parameter("to", "The last day, which is included, or a timestamp up to which. Today when left out."),
        query_parameter(
            "group_by",
            "By what to tell usage apart: one or several of `day`, `agent`, `model`, `user` and `key`, separated by"
            " commas. One sum of everything when left out.",
        ),
        query_parameter(
            "limit", "Sums in the page.", type="integer", minimum=1, maximum=_MAX_LIMIT, default=_DEFAULT_LIMIT
        ),
        OFFSET,
    )

    async def __call__(self, request: Request) -> UsageRequest:
        given = check_parameters(request.scope["query_string"], _NAMES)
        return UsageRequest(
            begin=_begin(given["from"]) if "from" in given else None,
            end=_end(given["to"]) if "to" in given else None,
            groups=_groups(given.get("group_by", "")),
            limit=number_of(given, "limit", _DEFAULT_LIMIT, 1, _MAX_LIMIT),
            offset=number_of(given, "offset", 0, 0, MAX_OFFSET),
        )


def _begin(text: str) -> datetime:
    found = _moment("from", text)
    return found.replace(minute=0, second=0, microsecond=0) if isinstance(found, datetime) else _midnight(found)


def _end(text: str) -> datetime:
    found = _moment("to", text)
    if not isinstance(found, datetime):
        return _midnight(found + _DAY)
    whole = found.replace(minute=0, second=0, microsecond=0)
    return whole if whole == found else whole + _HOUR


def _moment(name: str, text: str) -> date | datetime:
    try:
        found = date.fromisoformat(text) if len(text) == len("2026-05-01") else parse_time(text).astimezone(UTC)
        # Room for the day that is added to it.
        if found.year in range(1970, 9000):
            return found
    except (ValueError, OverflowError):
        pass
    raise _invalid(name, "must be a day or a timestamp", f"{name}=2026-05-01, or {name}=2026-05-01T08:00:00Z")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _groups(text: str) -> tuple[UsageGroup, ...]:
    try:
        return tuple(dict.fromkeys(UsageGroup(name.strip()) for name in text.split(","))) if text else ()
    except ValueError:
        names = ", ".join(UsageGroup)
        raise _invalid("group_by", f"takes {names}, separated by commas", "group_by=day,model") from None


def _invalid(name: str, message: str, hint: str) -> ValidationFailed:
    detail: dict[str, Any] = {"loc": ["query", name], "type": "invalid", "message": message, "hint": hint}
    return ValidationFailed(f"The query is not valid: {name} {message}.", details=[ErrorDetail(**detail)])
