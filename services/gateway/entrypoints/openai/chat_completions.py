"""Serves ``/openai/v1/chat/completions``. Each call creates an unlisted session, which is deleted after a day."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Security
from starlette.responses import Response

from libs.contracts.errors import ServiceError, TimedOut
from libs.contracts.identity import Scope
from libs.contracts.replies import ExecuteReply
from services.gateway.domain.accounts import Principal
from services.gateway.domain.turn_progress import typed_events
from services.gateway.entrypoints.door.answers import MAX_WAIT, json_answer
from services.gateway.entrypoints.door.application import DoorDep, protocol_router, turn_headers
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.image_bodies import ParsedObjectWithImages
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.entrypoints.openai.chat_answers import ChatStream, completion, needs_approval
from services.gateway.entrypoints.openai.chat_bodies import ChatBody, chat_body
from services.gateway.entrypoints.openai.chat_requests import NAMES, chat_turn
from services.gateway.entrypoints.openai.conventions import PREFIX, renamed, turn_error
from services.gateway.use_cases.turns import SubmittedTurn, Unfinished

router: Final = protocol_router(f"{PREFIX}/chat/completions")
_MAX_BODY: Final = 1024 * 1024
Executor = Annotated[Principal, Security(by_api_key, scopes=[Scope.RUNTIME_EXECUTE, Scope.SESSIONS_WRITE])]
Body = Annotated[dict[str, Any], Depends(ParsedObjectWithImages(ChatBody, {}, most_bytes=_MAX_BODY))]


@router.post("")
async def create_chat_completion(
    request: Request, caller: Executor, values: Body, write: IdempotentWrite, door: DoorDep
) -> Response:
    body = chat_body(values)
    turn = chat_turn(body, await door.agents.beginning_of(caller.identity, body.model), caller)
    submitting = door.turns.submit(write, turn.begins, turn.content, turn.request)
    if body.stream:
        headers: dict[str, str] = {}
        return await door.streams.respond(request, _chunks(submitting, body, headers), caller, headers)
    return await _complete(request, submitting, body)


async def _complete(
    request: Request, submitting: AbstractAsyncContextManager[SubmittedTurn], body: ChatBody
) -> Response:
    async with submitting as submitted:
        headers = turn_headers(submitted.session_id, submitted.command_id)
        try:
            end = await submitted.finish(MAX_WAIT)
        except ServiceError as problem:
            shown = renamed(problem, NAMES)
            if submitted.has_failed:
                return turn_error(request, shown, headers)
            raise shown from None
        if not isinstance(end, Unfinished):
            reply = ExecuteReply.model_validate_json(end.payload)
            return json_answer(completion(body.model, reply), headers=headers)
        if end.status == "waiting":
            waiting = needs_approval(submitted.session_id, submitted.command_id, end.required_actions)
            return turn_error(request, waiting, headers)
        late = TimedOut(
            f"Turn {submitted.command_id} of session {submitted.session_id} is taking too long."
            " The turn continues in the background."
        )
        return turn_error(request, late, headers)


async def _chunks(
    submitting: AbstractAsyncContextManager[SubmittedTurn], body: ChatBody, headers: dict[str, str]
) -> AsyncGenerator[bytes, None]:
    """Yields the chunks. Adds to the response's ``headers`` before the first chunk."""
    async with submitting as submitted:
        headers |= turn_headers(submitted.session_id, submitted.command_id)
        usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        whole = body.response_format is not None and body.response_format.type != "text"
        stream = ChatStream(body.model, submitted.session_id, submitted.command_id, usage, whole)
        try:
            async with aclosing(stream.chunks(typed_events(submitted.follow()))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ServiceError as problem:
            raise renamed(problem, NAMES) from None
