"""The query of ``GET /events/``: which events, from where on, how many."""

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import Request

from libs.contracts.errors import ErrorDetail, InvalidRequest, ValidationFailed
from services.gateway.domain.timeline_reading import TimelineQuery
from services.gateway.entrypoints.http.reference.described import Described
from services.gateway.entrypoints.http.reference.parameters import LAST_EVENT_ID, LIMIT, query_parameter
from services.gateway.entrypoints.http.validation import DEFAULT_LIMIT, MAX_LIMIT, check_parameters, number_of

MAX_POSITION: Final = 2**63 - 1
_MOST_TYPES: Final = 50
_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*(\.?\*)?|\*")
_POSITION: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_NAMES: Final = ("correlation_id", "session_id", "turn_id", "type", "order", "after", "before", "limit")
_ORDERS: Final = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class TimelineRequest:
    """``after`` and ``before`` are ``None`` when the caller names no position. ``newest_first``: ``order=desc``."""

    query: TimelineQuery
    newest_first: bool
    after: int | None
    before: int | None
    limit: int


class TimelineParameters(Described):
    """Dependency: the parameters of the query. Raises ``ValidationFailed`` for anything else in it."""

    errors = (422,)
    parameters = (
        query_parameter("correlation_id", "Only events of this correlation id."),
        query_parameter("session_id", "Only events of this session."),
        query_parameter("turn_id", "Only events of this turn."),
        query_parameter(
            "type",
            "Only events of this type, or of types that begin like this when it ends in `*`, such as `turn.*`."
            " Several are separated by commas, or given one by one.",
        ),
        query_parameter(
            "after",
            "Only events after this position: the `next` of the page before.",
            type="integer",
            minimum=0,
            maximum=MAX_POSITION,
        ),
        query_parameter("order", "`asc`, oldest first, or `desc`, newest first; pages only.", enum=list(_ORDERS)),
        query_parameter(
            "before",
            "With `order=desc`, only events before this position: the `next` of the page before.",
            type="integer",
            minimum=0,
            maximum=MAX_POSITION,
        ),
        LIMIT,
        LAST_EVENT_ID,
    )

    async def __call__(self, request: Request) -> TimelineRequest:
        query: bytes = request.scope["query_string"]
        given = check_parameters(query, _NAMES)
        newest_first = _is_newest_first(given)
        after = _position_in(given, "after") if "after" in given else None
        before = _position_in(given, "before") if "before" in given else None
        limit = number_of(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        wanted = {name: _text(given[name]) for name in ("correlation_id", "session_id", "turn_id") if name in given}
        return TimelineRequest(TimelineQuery(**wanted, types=_types_in(query)), newest_first, after, before, limit)


def check_followed(wanted: TimelineRequest) -> None:
    """Raises ``ValidationFailed`` for what only pages can do."""
    if wanted.newest_first:
        raise _invalid("order", "is for pages: a stream goes on in the order of the events", "leave it out")


def last_event_id(header: str | None) -> int | None:
    """The position in a ``Last-Event-ID``. Raises ``InvalidRequest`` for anything else."""
    if header is None or header == "":
        # A browser that has seen no event yet sends none; some clients send an empty one.
        return None
    if _POSITION.fullmatch(header) and int(header) <= MAX_POSITION:
        return int(header)
    raise InvalidRequest("The Last-Event-ID must be the id of an event that was received: a position.")


def _types_in(query: bytes) -> tuple[str, ...]:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True) if b"type" in query else []
    types = tuple(dict.fromkeys(each for name, value in pairs if name == "type" for each in value.split(",")))
    if len(types) > _MOST_TYPES:
        raise _invalid("type", f"names more than {_MOST_TYPES} types", "use a prefix such as turn.*")
    for each in types:
        if len(each) > 100 or not _TYPE.fullmatch(each):
            raise _invalid("type", "must be names of events, or prefixes that end in *", "type=turn.completed")
    return types


def _is_newest_first(given: dict[str, Any]) -> bool:
    order = given.get("order", "asc")
    if order not in _ORDERS:
        raise _invalid("order", "must be asc or desc", "order=desc")
    if order == "desc" and "after" in given:
        raise _invalid("after", "is for events in their order", "with order=desc use before")
    if order == "asc" and "before" in given:
        raise _invalid("before", "is for the newest events first", "add order=desc")
    return bool(order == "desc")


def _position_in(given: dict[str, Any], name: str) -> int:
    text = given[name]
    if _POSITION.fullmatch(text) and int(text) <= MAX_POSITION:
        return int(text)
    raise _invalid(name, "must be a position", f"{name}=17")


def _text(value: str) -> str:
    # An id that is none names nothing; PostgreSQL would refuse the whole statement for a NUL.
    return value.replace("\0", "\ufffd")


def _invalid(name: str, message: str, hint: str) -> ValidationFailed:
    detail = ErrorDetail(loc=["query", name], type="invalid", message=message, hint=hint)
    return ValidationFailed(f"The query is not valid: {name} {message}.", details=[detail])
