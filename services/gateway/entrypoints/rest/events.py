"""Serves ``/events/``: reads or follows the company's timeline."""

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Annotated, Final, Self

from fastapi import Query, Request, Security
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from libs.contracts.errors import InvalidRequest
from libs.contracts.findings import did_you_mean
from libs.contracts.identity import Scope
from libs.contracts.resources.events import EventPage, TimelineEventView
from libs.contracts.resources.webhooks import recorded_types, selects_events
from libs.contracts.timeline import TimelineFilter
from services.gateway.domain.accounts import Principal
from services.gateway.domain.public_view import public_event
from services.gateway.domain.timeline import Form, TimelineEvent, TimelinePage, visible_events
from services.gateway.entrypoints.door.answers import json_answer, wants_events
from services.gateway.entrypoints.door.application import DoorDep
from services.gateway.entrypoints.door.callers import by_api_key_or_public_key
from services.gateway.entrypoints.door.queries import (
    DEFAULT_LIMIT,
    LastEventId,
    Limit,
    OptionalText,
    QueryModel,
    refused_parameter,
)
from services.gateway.entrypoints.door.routes import answer, public_router, stream_event
from services.gateway.entrypoints.door.streams import MEDIA_TYPE, in_pieces, render_event
from services.gateway.entrypoints.rest.reference.texts import TIMELINE, TIMELINE_EVENTS

MAX_POSITION: Final = 2**63 - 1
_MOST_TYPES: Final = 50
_POSITION: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_ORDERS: Final = ("asc", "desc")


def _position(name: str) -> BeforeValidator:
    def read(text: str) -> int:
        if _POSITION.fullmatch(text) and int(text) <= MAX_POSITION:
            return int(text)
        raise refused_parameter(name, "must be the position of an event", f"{name}=17")

    return BeforeValidator(read)


def _types(given: tuple[str, ...]) -> tuple[str, ...]:
    types = tuple(dict.fromkeys(each for value in given for each in value.split(",")))
    if len(types) > _MOST_TYPES:
        raise refused_parameter("type", f"must contain at most {_MOST_TYPES} types", "use a prefix such as turn.*")
    known = recorded_types() if types else set()
    for each in types:
        if not selects_events(each, known):
            hint = did_you_mean(each, sorted(known)) or "type=turn.completed"
            raise refused_parameter("type", "must be event types, or prefixes that end in *", hint)
    return types


def _order(order: str) -> str:
    if order not in _ORDERS:
        raise refused_parameter("order", "must be asc or desc", "order=desc")
    return order


_Types = Annotated[tuple[str, ...], AfterValidator(_types), WithJsonSchema({"type": "string"})]
_Order = Annotated[str, AfterValidator(_order), WithJsonSchema({"enum": list(_ORDERS)})]
_After = Annotated[int, Field(ge=0, le=MAX_POSITION), _position("after")]
_Before = Annotated[int, Field(ge=0, le=MAX_POSITION), _position("before")]


class EventsQuery(QueryModel):
    correlation_id: OptionalText = Field(None, description="Only events with this correlation ID.")
    session_id: OptionalText = Field(None, description="Only events of this session.")
    turn_id: OptionalText = Field(None, description="Only events of this turn.")
    type: _Types = Field(
        default_factory=tuple,
        description=(
            "Only events of this type, or with this prefix if it ends in `*`, such as `turn.*`."
            " Separate multiple types with commas, or repeat the parameter."
        ),
    )
    order: _Order | SkipJsonSchema[None] = Field(
        None, description="`asc` for oldest first, `desc` for newest first. Can't be used with streams."
    )
    after: _After | SkipJsonSchema[None] = Field(
        None, description="Only events after this position, such as the previous page's `next`."
    )
    before: _Before | SkipJsonSchema[None] = Field(
        None, description="With `order=desc`, only events before this position, such as the previous page's `next`."
    )
    limit: Limit = Field(DEFAULT_LIMIT, description="The maximum number of items per page.")

    @model_validator(mode="after")
    def _in_one_direction(self) -> Self:
        if self.newest_first and self.after is not None:
            raise refused_parameter("after", "can't be combined with order=desc", "use before")
        if not self.newest_first and self.before is not None:
            raise refused_parameter("before", "requires order=desc", "add order=desc")
        return self

    @property
    def newest_first(self) -> bool:
        return self.order == "desc"

    def visible_to(self, caller: Principal) -> TimelineFilter:
        criteria = {"correlation_id": self.correlation_id, "turn_id": self.turn_id, "types": self.type}
        return visible_events(caller, self.session_id, **criteria)

    def check_followed(self) -> None:
        """Raises ``ValidationFailed`` for parameters that can't be used with a stream."""
        if self.newest_first:
            message = "can't be used with a stream"
            raise refused_parameter("order", message, "omit it")


def last_event_id(header: str | None) -> int | None:
    """Parses the position in a ``Last-Event-ID`` header. Raises ``InvalidRequest`` for an invalid position."""
    if header is None or header == "":
        # Browsers that haven't received an event omit the header. Some clients send an empty header.
        return None
    if _POSITION.fullmatch(header) and int(header) <= MAX_POSITION:
        return int(header)
    raise InvalidRequest("The Last-Event-ID must be the ID of an event that you received.")


router = public_router("/events", "Events")
_EVENT: Final = stream_event({"type": "string"}, TimelineEventView)
_STREAM: Final = {MEDIA_TYPE: {"schema": _EVENT, "examples": {"timeline": {"value": TIMELINE_EVENTS}}}}


@router.get(
    "/",
    operation_id="events.list",
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
        # A reconnecting client repeats the query, and adds the ID of the event to resume after.
        seen = last_event_id(last_seen)
        after = query.after if seen is None else seen
        events = _rendered(door.reader.company(query.visible_to(caller), after=after), _form_for(caller, _streamed))
        return await door.streams.respond(request, events, caller)
    log, where = door.reader.log, query.visible_to(caller)
    if query.newest_first:
        page = await log.page_back(where, before=query.before, limit=query.limit)
    else:
        page = await log.page(where, after=query.after or 0, limit=query.limit)
    return json_answer(_page(page, _form_for(caller, TimelineEvent.to_json)))


async def _rendered(
    events: AsyncGenerator[Sequence[TimelineEvent] | int, None], form: Form
) -> AsyncGenerator[bytes, None]:
    try:
        async for some in events:
            if isinstance(some, int):
                # Clients don't dispatch an event without data, but they remember its ID and resume after it.
                yield b": keep-alive\nid: %d\n\n" % some
            else:
                for piece in in_pieces(each.rendered_as(form) for each in some):
                    yield piece
    finally:
        await events.aclose()


def _streamed(event: TimelineEvent) -> bytes:
    # Renders the event without its cache, which would keep the JSON, too.
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
