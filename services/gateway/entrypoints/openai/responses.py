"""Serves ``/openai/v1/responses``."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Final

import orjson
from fastapi import Depends, Query, Request, Security
from starlette.responses import Response

from libs.contracts.errors import Conflict, InvalidRequest, ServiceError
from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.domain.turn_ends import ENDED_STATUSES
from services.gateway.entrypoints.door.answers import MAX_WAIT, value_answer
from services.gateway.entrypoints.door.application import DoorDep, protocol_router, turn_headers
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.image_bodies import ParsedBodyWithImages
from services.gateway.entrypoints.door.queries import QueryModel, read_whole_number
from services.gateway.entrypoints.door.streams import render_event, rendered
from services.gateway.entrypoints.door.writes import IdempotentWrite, PlainWrite
from services.gateway.entrypoints.openai.conventions import PREFIX, deleted, refuse, turn_error
from services.gateway.entrypoints.openai.pages import Cursor, page_within
from services.gateway.entrypoints.openai.response_builder import after
from services.gateway.entrypoints.openai.response_items import Json, history_items
from services.gateway.entrypoints.openai.response_request import CreateResponse, response_head
from services.gateway.entrypoints.openai.response_turns import BegunResponse, ResponseName, ResponseTurns, options_of

router: Final = protocol_router(f"{PREFIX}/responses")
Executor = Annotated[
    Principal, Security(by_api_key, scopes=[Scope.RUNTIME_EXECUTE, Scope.SESSIONS_WRITE, Scope.SESSIONS_READ])
]
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_READ])]
NewResponse = Annotated[CreateResponse, Depends(ParsedBodyWithImages(CreateResponse))]


@router.post("")
async def create_response(
    request: Request, caller: Executor, body: NewResponse, write: IdempotentWrite, door: DoorDep
) -> Response:
    responses = ResponseTurns(door, caller, write)
    begun = await responses.begin(body, stream=bool(body.stream))
    events = responses.follow(begun, request.is_disconnected)
    if body.stream:
        return await door.streams.respond(request, rendered(events, _rendered), caller, begun.headers)
    async with aclosing(events):
        # Raises the error of a refused turn, which may be sent again.
        await anext(events, None)
        error = None if body.background else await _error_of(begun, events)
    if error is not None:
        return turn_error(request, error, begun.headers)
    return value_answer(begun.response(), headers=begun.headers)


async def _error_of(begun: BegunResponse, events: AsyncGenerator[list[Json] | None, None]) -> ServiceError | None:
    """Waits up to ten minutes for the response to end. Returns the reason why it has no reply, or None."""
    with suppress(TimeoutError):
        async with asyncio.timeout(MAX_WAIT):
            try:
                async for _ in events:
                    pass
            except ServiceError as problem:
                return problem
    return begun.error()


def _rendered(events: Sequence[Json]) -> bytes:
    return b"".join(render_event(event["type"], orjson.dumps(event)) for event in events)


class ResponseQuery(QueryModel):
    stream: str = "false"
    starting_after: str | None = None
    include_obfuscation: str = "false"


@router.get("/{response_id}")
async def get_response(
    request: Request,
    response_id: str,
    query: Annotated[ResponseQuery, Query()],
    caller: Reader,
    write: PlainWrite,
    door: DoorDep,
) -> Response:
    """Returns a response. With ``stream=true``, streams its events with numbers above ``starting_after`` instead."""
    responses, name = ResponseTurns(door, caller, write), ResponseName.parse(response_id)
    if query.include_obfuscation != "false":
        raise refuse("include_obfuscation", "include_obfuscation isn't supported.")
    if query.stream not in ("true", "false"):
        raise refuse("stream", "`stream` must be true or false.", "invalid_value")
    if query.stream == "true":
        given = query.starting_after
        starting_after = -1 if given is None else read_whole_number("starting_after", given, 0, 2**53, -1)
        begun = await responses.again(name)
        events = rendered(responses.follow(begun), lambda made: _rendered(after(made, starting_after)))
        return await door.streams.respond(request, events, caller, begun.headers)
    if query.starting_after is not None:
        raise refuse("starting_after", "starting_after requires stream=true.", "conflict")
    turn, builder = await responses.snapshot(name)
    return value_answer(builder.response(), headers=turn_headers(turn.session_id, turn.turn_id))


@router.post("/{response_id}/cancel")
async def cancel_response(response_id: str, caller: Executor, write: IdempotentWrite, door: DoorDep) -> Response:
    responses, name = ResponseTurns(door, caller, write), ResponseName.parse(response_id)
    turn = await door.turns.read(caller.identity, name.turn_id)
    if turn.status not in ENDED_STATUSES:
        # If the turn has ended in the meantime, the response below shows that.
        with suppress(Conflict):
            await door.turns.cancel(write, turn.session_id, turn.turn_id)
    elif turn.status != "cancelled":
        raise InvalidRequest(f"The response has already ended with status {turn.status}.")
    turn, builder = await responses.snapshot(name)
    return value_answer(builder.response(), headers=turn_headers(turn.session_id, turn.turn_id))


@router.delete("/{response_id}")
async def delete_response(response_id: str, caller: Executor, write: IdempotentWrite, door: DoorDep) -> Response:
    """Deletes a response with its session. Raises ``Conflict`` if the response is part of a conversation."""
    name = ResponseName.parse(response_id)
    turn = await door.turns.read(caller.identity, name.turn_id)
    page = await door.sessions.messages(caller.identity, turn.session_id, limit=3)
    is_alone = page.total <= 2 and all(message.turn_id == turn.turn_id for message in page.messages)
    if not is_alone or response_head(options_of(turn), 0)["conversation"] is not None:
        raise Conflict("The response is part of a conversation, which can only be deleted as a whole.")
    await door.sessions.delete(write, turn.session_id)
    return deleted(response_id, "response")


@router.get("/{response_id}/input_items")
async def list_input_items(
    response_id: str, cursor: Cursor, caller: Reader, write: PlainWrite, door: DoorDep
) -> Response:
    name = ResponseName.parse(response_id)
    if name.part:
        _, builder = await ResponseTurns(door, caller, write).snapshot(name)
        return page_within(builder.inputs, cursor)
    turn = await door.turns.read(caller.identity, name.turn_id)
    page = await door.sessions.messages(caller.identity, turn.session_id, turn_id=turn.turn_id)
    asked = [message for message in page.messages if message.role == "user"]
    items = [item for each in asked for item in history_items(each.id, each.role, each.content_blocks)]
    return page_within(items, cursor)
