"""Serves the numbered log over the internal API.

A response is a line of JSON with the events' metadata, followed by their payloads as published, one after the other.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, FastAPI, Query
from starlette.responses import Response

from libs.contracts.errors import PermissionDenied
from libs.contracts.identity import Identity, Scope
from libs.contracts.timeline import EVENT_FIELDS, RecordedEvent, TimelineFilter
from libs.service_defaults import Caller
from services.timeline.domain.ports import Timeline

_MOST: Final = 500
_MAX_POSITION: Final = 2**63 - 1
Position = Annotated[int, Query(ge=0, le=_MAX_POSITION)]
Most = Annotated[int, Query(ge=1, le=_MOST)]


async def _asked_for(
    who: Caller,
    correlation_id: str | None = None,
    session_id: str | None = None,
    turn_id: str | None = None,
    type: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006
) -> TimelineFilter:
    return TimelineFilter(
        company_id=who.company_id,
        correlation_id=correlation_id,
        session_id=session_id,
        turn_id=turn_id,
        types=tuple(type),
        visible_to=None if who.reads_company else who.user_id,
    )


Wanted = Annotated[TimelineFilter, Depends(_asked_for)]


def serve_events(http: FastAPI, timeline: Timeline) -> None:
    router = APIRouter(prefix="/internal")

    @router.get("/events")
    async def page(where: Wanted, after: Position = 0, limit: Most = 50) -> Response:
        found = await timeline.page(where, after=after, limit=limit)
        return _reply(found.events, next=found.next, has_more=found.has_more)

    @router.get("/events/back")
    async def page_back(where: Wanted, before: Position | None = None, limit: Most = 50) -> Response:
        """Returns a page of events before a position, by default the end of the log, newest first."""
        found = await timeline.page_back(where, before=before, limit=limit)
        return _reply(found.events, next=found.next, has_more=found.has_more)

    @router.get("/events/newest")
    async def newest(where: Wanted) -> Response:
        found = await timeline.newest(where)
        return _reply([] if found is None else [found])

    @router.post("/events/heads")
    async def heads(companies: list[str], who: Caller) -> Response:
        """Returns the newest positions of many companies. The gateway uses them to follow the log for its readers."""
        if not who.allows(Scope.INSTALLATION_READ):
            raise PermissionDenied("The credential needs the scope installation:read.")
        return Response(orjson.dumps(await timeline.heads(companies)), media_type="application/json")

    @router.get("/turns/{turn_id}/events")
    async def turn(turn_id: str, who: Caller, after: Position = 0) -> Response:
        found = await timeline.turn(who.company_id, turn_id, after_sequence=after)
        return _reply([event for event in found if _is_visible(event, who)])

    http.include_router(router)


def _is_visible(event: RecordedEvent, who: Identity) -> bool:
    return event.owner_id is None or who.may_read_of(event.owner_id)


def _reply(events: Sequence[RecordedEvent], **facts: Any) -> Response:
    heads = [{**{name: getattr(event, name) for name in EVENT_FIELDS}, "length": len(event.data)} for event in events]
    head = orjson.dumps({"events": heads, **facts})
    return Response(b"\n".join((head, b"".join(event.data for event in events))), media_type="application/octet-stream")
