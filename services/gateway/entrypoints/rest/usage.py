"""Serves ``/usage/``: the usage of turns."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from fastapi import Query, Security
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from libs.contracts.identity import Scope
from libs.contracts.resources.usage import UsageGroup, UsageReport
from libs.contracts.timestamps import format_time, parse_time
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.application import Upstream
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Offset, QueryModel, refused_parameter, whole_number
from services.gateway.entrypoints.door.routes import answer, public_router
from services.gateway.entrypoints.rest.resources import ResourcesDep

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_LONGEST: Final = 366
_DEFAULT_DAYS: Final = 30
_DEFAULT_LIMIT: Final = 200
_MAX_LIMIT: Final = 1000


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
        # Leaves room to add a day.
        if found.year in range(1970, 9000):
            return found
    except (ValueError, OverflowError):
        pass
    raise refused_parameter(name, "must be a date or a timestamp", f"{name}=2026-05-01, or {name}=2026-05-01T08:00:00Z")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _groups(text: str) -> str:
    try:
        _groups_in(text)
    except ValueError:
        names = ", ".join(UsageGroup)
        raise refused_parameter(
            "group_by", f"must be a comma-separated list of {names}", "group_by=day,model"
        ) from None
    return text


def _groups_in(text: str | None) -> tuple[UsageGroup, ...]:
    return tuple(dict.fromkeys(UsageGroup(name.strip()) for name in text.split(","))) if text else ()


_AsText = WithJsonSchema({"type": "string"})
_Begin = Annotated[datetime, BeforeValidator(_begin), _AsText]
_End = Annotated[datetime, BeforeValidator(_end), _AsText]
_Limit = Annotated[int, Field(ge=1, le=_MAX_LIMIT), whole_number("limit", 1, _MAX_LIMIT, _DEFAULT_LIMIT)]


class UsageQuery(QueryModel):
    """The query for usage from ``begin`` up to but excluding ``end``, both rounded to whole hours."""

    begin: _Begin | SkipJsonSchema[None] = Field(
        None,
        alias="from",
        description="The first day (UTC), or a timestamp, rounded down to the hour. Defaults to 30 days before `to`.",
    )
    end: _End | SkipJsonSchema[None] = Field(
        None,
        alias="to",
        description="The last day, inclusive, or an end timestamp, rounded up to the hour. Defaults to today.",
    )
    group_by: Annotated[str, AfterValidator(_groups)] | SkipJsonSchema[None] = Field(
        None,
        description=(
            "Groups usage by one or more of `day`, `agent`, `model`, `user` and `key`, separated by"
            " commas. By default, usage isn't grouped."
        ),
    )
    limit: _Limit = Field(_DEFAULT_LIMIT, description="The maximum number of groups per page.")
    offset: Offset = 0

    @property
    def groups(self) -> tuple[UsageGroup, ...]:
        return _groups_in(self.group_by)

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """Returns the period, by default the last 30 days. Raises ``ValidationFailed`` if it's empty or too long."""
        end = self.end or _midnight(now.date() + _DAY)
        begin = self.begin or end - _DEFAULT_DAYS * _DAY
        if not timedelta(0) < end - begin <= _LONGEST * _DAY:
            message = f"must be before `to`, and at most {_LONGEST} days earlier"
            raise refused_parameter("from", message, "from=2026-05-01&to=2026-05-31")
        return begin, end


router = public_router("/usage", "Usage")


@router.get(
    "/",
    operation_id="usage.get",
    summary="Read usage",
    description=(
        "Returns your usage. With a `company:…` scope, returns the company's usage. Only turns that have ended count,"
        " including failed turns. A turn counts toward the hour (UTC) in which it ended, and appears about a second"
        " later. `cost` is an exact decimal, at the models' prices when the turn ended. `unpriced_turns` counts turns"
        " with models that have no price."
    ),
    responses={
        200: answer("The totals of each group, sorted by the grouping fields, and the overall total.", UsageReport)
    },
)
async def get_usage(
    caller: Annotated[Principal, Security(by_api_key, scopes=[Scope.USAGE_READ])],
    wanted: Annotated[UsageQuery, Query()],
    resources: ResourcesDep,
    upstream: Upstream,
) -> Response:
    begin, end = wanted.span(resources.now())
    params = {
        "begin": format_time(begin),
        "end": format_time(end),
        "group": list(wanted.groups),
        "limit": wanted.limit,
        "offset": wanted.offset,
    }
    return await upstream.get(caller, "timeline", "/internal/usage", params)
