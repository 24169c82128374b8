"""``/events/``: the company's timeline, read by pages or followed."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Annotated, Final

from fastapi import Query, Request, Security
from starlette.responses import Response

from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.domain.public_view import public_event
from services.gateway.domain.timeline import Form, TimelineEvent, TimelinePage
from services.gateway.entrypoints.door.answers import json_answer
from services.gateway.entrypoints.door.application import DoorDep
from services.gateway.entrypoints.door.callers import by_api_key_or_public_key
from services.gateway.entrypoints.door.described import EVENT_SCHEMA, answer
from services.gateway.entrypoints.door.queries import LastEventId, wants_events
from services.gateway.entrypoints.door.routes import public_router
from services.gateway.entrypoints.door.streams import MEDIA_TYPE, in_pieces, render_event
from services.gateway.entrypoints.rest.reference.texts import TIMELINE, TIMELINE_EVENTS
from services.gateway.entrypoints.rest.schemas import EventPage
from services.gateway.entrypoints.rest.timeline_query import EventsQuery, last_event_id

router = public_router("/events", "Events")
_STREAM: Final = {MEDIA_TYPE: {"schema": EVENT_SCHEMA, "examples": {"timeline": {"value": TIMELINE_EVENTS}}}}


@router.get(
    "/",
    summary="Read or follow the timeline",
    description=TIMELINE,
    responses={
        200: {**answer("Events, oldest first, or newest first with `order=desc`.", EventPage), "content": _STREAM}
    },
)
async def list_events(
    request: Request,
    caller: Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.EVENTS_READ])],
    query: Annotated[EventsQuery, Query()],
    door: DoorDep,
    last_seen: LastEventId = None,
) -> Response:
    if wants_events(request.headers.get("accept")):
        query.check_followed()
        # A client that reconnects sends the same query again, and after which event it goes on.
        seen = last_event_id(last_seen)
        after = query.after if seen is None else seen
        events = _rendered(door.reader.company(caller, query.wanted, after=after), _form_for(caller, _streamed))
        return await door.streams.respond(request, events, caller)
    form = _form_for(caller, TimelineEvent.to_json)
    if query.newest_first:
        page = await door.reader.page_back(caller, query.wanted, before=query.before, limit=query.limit)
    else:
        page = await door.reader.page(caller, query.wanted, after=query.after or 0, limit=query.limit)
    return json_answer(_page(page, form))


async def _rendered(
    events: AsyncGenerator[Sequence[TimelineEvent] | int, None], form: Form
) -> AsyncGenerator[bytes, None]:
    try:
        async for some in events:
            if isinstance(some, int):
                # Clients dispatch no event without data, but they keep the id and resume after it.
                yield b": keep-alive\nid: %d\n\n" % some
            else:
                for piece in in_pieces(each.rendered_as(form) for each in some):
                    yield piece
    finally:
        await events.aclose()


def _streamed(event: TimelineEvent) -> bytes:
    # Its JSON is not kept beside it.
    return render_event(event.type, event.to_json(), event_id=str(event.position))


def _streamed_to_public(event: TimelineEvent) -> bytes:
    return _streamed(_public(event))


def _page_of_public(event: TimelineEvent) -> bytes:
    return _public(event).to_json()


def _public(event: TimelineEvent) -> TimelineEvent:
    return replace(event, data=public_event(event.type, event.data))


_PUBLIC_FORMS: Final[dict[Form, Form]] = {_streamed: _streamed_to_public, TimelineEvent.to_json: _page_of_public}


def _form_for(caller: Principal, form: Form) -> Form:
    return form if caller.public is None else _PUBLIC_FORMS[form]


def _page(page: TimelinePage, form: Form) -> bytes:
    events = b",".join(map(form, page.events))
    rest = b'],"has_more":%s,"next":%d}' % (b"true" if page.has_more else b"false", page.next)
    return b'{"events":[' + events + rest
