"""Serves ``/runtime/{session_id}/…`` and ``/actions/``: messages to agents, turns, and open actions."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Annotated, Final

from fastapi import Depends, Query, Request, Security
from pydantic import Field
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.messages import public_name
from libs.contracts.replies import ExecuteReply
from libs.contracts.resources.actions import ActionPage, ResolveActionBody
from libs.contracts.resources.messages import MessagePage
from libs.contracts.resources.turns import ExecuteBody, Turn, TurnAccepted, TurnCancelledReply, TurnRequest
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.domain.public_view import public_event, public_reply
from services.gateway.domain.turn_options import check_options
from services.gateway.domain.turn_stream import START, Cursor, StreamedEvent
from services.gateway.entrypoints.door.answers import (
    Preference,
    json_answer,
    model_answer,
    preference_of,
    turn_answer,
    wants_events,
)
from services.gateway.entrypoints.door.application import DoorDep, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key, by_api_key_or_public_key, require_scopes
from services.gateway.entrypoints.door.queries import LastEventId, OptionalText, Page, PageQuery, Prefer
from services.gateway.entrypoints.door.routes import PREFIX, answer, errors, public_router
from services.gateway.entrypoints.door.streams import MEDIA_TYPE, render_event, rendered
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.entrypoints.rest.reference.texts import EVENTS, EXECUTE, RESOLVE, TURN_EVENTS
from services.gateway.use_cases.turns import Turns, Unfinished, scope_to_answer

router = public_router("/runtime", "Runtime")
actions = public_router("", "Runtime")
Form = Callable[[StreamedEvent], bytes]
Executor = Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.RUNTIME_EXECUTE])]
Reader = Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.SESSIONS_READ])]
_EVENT: Final = {"$ref": "#/components/schemas/TurnStreamEvent"}
_STREAM: Final = {MEDIA_TYPE: {"schema": _EVENT, "examples": {"turn": {"value": EVENTS}}}}


class ActionsQuery(PageQuery):
    kind: OptionalText = Field(
        None, description="Only actions of this type.", json_schema_extra={"enum": ["approval", "tool_result"]}
    )
    session_id: OptionalText = Field(None, description="Only actions of this session.")


Execution = Annotated[ExecuteBody, Depends(ParsedBody(ExecuteBody))]
Answer = Annotated[ResolveActionBody, Depends(ParsedBody(ResolveActionBody))]


@router.post(
    "/{session_id}/execute/",
    operation_id="sessions.execute",
    summary="Run the agent on a message",
    description=EXECUTE,
    responses={
        200: {**answer("The reply, or the turn's events.", ExecuteReply), "content": _STREAM},
        202: answer("The turn is still running, or waiting for an answer.", TurnAccepted, location=True),
        **errors(404, 409, 502),
    },
)
async def execute(
    request: Request,
    session_id: str,
    caller: Executor,
    body: Execution,
    write: IdempotentWrite,
    door: DoorDep,
    prefer: Prefer = None,
) -> Response:
    if body.options is not None:
        check_options(body.options, caller)
    preference = preference_of(prefer)
    if wants_events(request.headers.get("accept")):
        headers: dict[str, str] = {}
        events = _events(door.turns, write, session_id, body, headers, _form_for(caller))
        return await door.streams.respond(request, events, caller, headers)
    session_id = id_of(session_id, "session")
    async with door.turns.submit(write, session_id, body.content, TurnRequest(options=body.options)) as turn:
        end = await turn.finish(preference.wait) if preference.wait > 0 else await turn.accepted()
        if isinstance(end, Unfinished):
            return _accepted(write, session_id, turn.command_id, end, preference, caller)
        return json_answer(end.payload if caller.public is None else public_reply(end.payload))


async def _events(
    turns: Turns, write: Write, session_id: str, body: ExecuteBody, headers: dict[str, str], form: Form
) -> AsyncGenerator[bytes, None]:
    """Submits a turn and yields its events. Adds to the response's ``headers`` before the first event."""
    asked = TurnRequest(stream=True, options=body.options)
    async with turns.submit(write, id_of(session_id, "session"), body.content, asked) as turn:
        headers["Location"] = _path(session_id, turn.command_id)
        async with aclosing(rendered(turn.follow(), form)) as pieces:
            async for piece in pieces:
                yield piece


def _rendered(event: StreamedEvent) -> bytes:
    return render_event(public_name(event.type), event.payload, event_id=str(event.id))


def _rendered_for_public(event: StreamedEvent) -> bytes:
    return _rendered(event._replace(payload=public_event(public_name(event.type), event.payload)))


def _form_for(caller: Principal) -> Form:
    return _rendered if caller.public is None else _rendered_for_public


def _path(session_id: str, turn_id: str) -> str:
    return f"{PREFIX}/runtime/{session_id}/turns/{turn_id}/"


def _accepted(
    write: Write, session_id: str, turn_id: str, end: Unfinished, preference: Preference, caller: Principal
) -> Response:
    accepted = TurnAccepted(
        turn_id=turn_id,
        session_id=session_id,
        status=end.status,
        correlation_id=write.correlation_id,
        required_actions=list(end.required_actions),
        blocked_by=end.blocked_by,
    )
    response = turn_answer(accepted.model_dump_json().encode(), caller, 202)
    response.headers["Location"] = _path(session_id, turn_id)
    if preference.applied:
        response.headers["Preference-Applied"] = preference.applied
    return response


@router.get(
    "/{session_id}/messages/",
    operation_id="sessions.messages",
    summary="List the messages of a session",
    responses={200: answer("Messages, oldest first.", MessagePage), **errors(404)},
)
async def list_messages(session_id: str, caller: Reader, page: Page, upstream: Upstream) -> Response:
    path = f"/internal/sessions/{id_of(session_id, 'session')}/messages"
    return await upstream.get(caller, "runtime", path, page.params())


@router.get(
    "/{session_id}/turns/{turn_id}/",
    operation_id="turns.get",
    summary="Get the state of a turn",
    description=(
        "The response contains the reply once the turn has completed, the error if it failed, and the open actions"
        " while it's waiting."
    ),
    responses={200: answer("The turn.", Turn), **errors(404)},
)
async def get_turn(session_id: str, turn_id: str, caller: Reader, upstream: Upstream) -> Response:
    path = f"/internal/sessions/{id_of(session_id, 'session')}/turns/{id_of(turn_id, 'turn')}"
    return turn_answer((await upstream.get(caller, "runtime", path)).body, caller)


@router.get(
    "/{session_id}/turns/{turn_id}/events/",
    operation_id="turns.stream",
    summary="Stream the events of a turn",
    description=TURN_EVENTS,
    responses={
        200: {"description": "The turn's events.", "content": _STREAM},
        204: {"description": "No events follow, because `Last-Event-ID` is the ID of the turn's last event."},
        **errors(400, 404),
    },
)
async def follow_turn(
    request: Request, session_id: str, turn_id: str, caller: Reader, door: DoorDep, seen: LastEventId = None
) -> Response:
    after = Cursor.parse(seen) if seen else START
    events = door.reader.turn(caller.identity, session_id, turn_id, after)
    return await door.streams.respond(request, rendered(events, _form_for(caller)), caller)


@router.post(
    "/{session_id}/turns/{turn_id}/cancel/",
    operation_id="turns.cancel",
    summary="Cancel a queued, running or waiting turn",
    responses={200: answer("The turn was cancelled.", TurnCancelledReply), **errors(404, 409)},
)
async def cancel_turn(session_id: str, turn_id: str, _: Executor, write: IdempotentWrite, door: DoorDep) -> Response:
    accepted = await door.turns.cancel(write, session_id, turn_id)
    return model_answer(TurnCancelledReply(turn_id=turn_id, session_id=session_id, status=accepted.status))


@router.post(
    "/{session_id}/turns/{turn_id}/actions/{action_id}/",
    operation_id="actions.resolve",
    summary="Resolve an action that a turn is waiting for",
    description=RESOLVE,
    responses={200: answer("The turn, with its remaining open actions.", Turn), **errors(403, 404, 409)},
)
async def resolve_action(
    session_id: str,
    turn_id: str,
    action_id: str,
    caller: Annotated[Principal, Security(by_api_key_or_public_key)],
    body: Answer,
    write: IdempotentWrite,
    door: DoorDep,
) -> Response:
    require_scopes(caller, [scope_to_answer(body)])
    turn = await door.turns.answer(write, session_id, turn_id, action_id, body)
    return turn_answer(turn.model_dump_json().encode(), caller)


@actions.get(
    "/actions/",
    operation_id="actions.list",
    summary="List the open actions",
    description="Lists your sessions' open actions. With a `company:…` scope, lists the whole company's open actions.",
    responses={200: answer("Open actions, oldest first.", ActionPage)},
)
async def list_actions(
    caller: Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_READ])],
    page: Annotated[ActionsQuery, Query()],
    upstream: Upstream,
) -> Response:
    return await upstream.get(caller, "runtime", "/internal/actions", page.params())
