"""Serves ``/sessions/…``: conversations with agents."""

from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Security
from pydantic import TypeAdapter
from starlette.responses import Response

from libs.contracts.errors import PermissionDenied
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.messages import GivenHistory, HistoryMessage
from libs.contracts.resources.sessions import (
    ConfiguredSession,
    CreateSessionBody,
    ForkSessionBody,
    ReferencedSession,
    Session,
    SessionCreated,
    SessionCreatedReply,
    SessionPage,
)
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import created, json_answer
from services.gateway.entrypoints.door.application import DoorDep, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody, ParsedObject, validated
from services.gateway.entrypoints.door.callers import by_api_key, by_api_key_or_public_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import answer, errors, public_router
from services.gateway.entrypoints.door.writes import IdempotentWrite

router = public_router("/sessions", "Sessions")
_SHOWN_TO_PUBLIC: Final = ("name", "agent_type")
Wanted = Annotated[
    dict[str, Any],
    Depends(ParsedObject(TypeAdapter(CreateSessionBody), ConfiguredSession.EXAMPLES | ReferencedSession.EXAMPLES)),
]
Fork = Annotated[ForkSessionBody, Depends(ParsedBody(ForkSessionBody, required=False))]


@router.post(
    "/",
    operation_id="sessions.create",
    summary="Create a session",
    description=(
        "Send a complete agent configuration, or a stored agent's `agent_id` or `agent_key`."
        " With a public key, send `{}`: the session uses the key's agent."
        " `messages` imports a conversation to continue, including its tool calls."
    ),
    status_code=201,
    responses={201: answer("The session was created.", SessionCreatedReply, location=True), **errors(404)},
)
async def create_session(
    caller: Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.SESSIONS_WRITE])],
    wanted: Wanted,
    write: IdempotentWrite,
    door: DoorDep,
) -> Response:
    seen_by = caller.identity
    if caller.public is not None:
        if not caller.public.names_own_agent(wanted):
            raise PermissionDenied("A public key can only open sessions with its own agent.")
        wanted, seen_by = {"agent_id": caller.public.agent_id}, caller.public.sees_as
    messages = _history(wanted)
    return _opened(await door.sessions.open(write, wanted, seen_by, messages))


@router.get(
    "/",
    operation_id="sessions.list",
    summary="List sessions",
    description="Lists your sessions. With a `company:…` scope, lists all company sessions.",
    responses={200: answer("Sessions, newest first.", SessionPage)},
)
async def list_sessions(
    caller: Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_READ])], page: Page, upstream: Upstream
) -> Response:
    return await upstream.get(caller, "runtime", "/internal/sessions", page.params())


@router.get(
    "/{session_id}/",
    operation_id="sessions.get",
    summary="Get a session",
    responses={200: answer("The session.", Session), **errors(404)},
)
async def get_session(
    session_id: str,
    caller: Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.SESSIONS_READ])],
    upstream: Upstream,
) -> Response:
    path = f"/internal/sessions/{id_of(session_id, 'session')}"
    found = await upstream.get(caller, "runtime", path)
    return found if caller.public is None else json_answer(_for_public(bytes(found.body)))


@router.post(
    "/{session_id}/fork/",
    operation_id="sessions.fork",
    summary="Fork a session",
    description=(
        "Creates a session with the same agent and a copy of the completed turns: the turns up to and including"
        " `up_to_turn_id`, the turns before `before_turn_id`, or all turns. Files aren't copied, but the fork's agent"
        " can read them while the original session exists."
    ),
    status_code=201,
    responses={201: answer("The new session.", SessionCreatedReply, location=True), **errors(404, 409)},
)
async def fork_session(
    session_id: str,
    _: Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_WRITE, Scope.SESSIONS_READ])],
    body: Fork,
    write: IdempotentWrite,
    door: DoorDep,
) -> Response:
    return _opened(await door.sessions.fork(write, session_id, **body.model_dump()))


@router.delete(
    "/{session_id}/",
    operation_id="sessions.delete",
    summary="Delete a session",
    description="Cancels a running turn, then deletes the session and its history.",
    status_code=204,
    responses={204: answer("The session was deleted."), **errors(404, 409)},
)
async def delete_session(
    session_id: str,
    _: Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_WRITE])],
    write: IdempotentWrite,
    door: DoorDep,
) -> Response:
    await door.sessions.delete(write, session_id)
    return Response(status_code=204)


def _history(wanted: dict[str, Any]) -> list[HistoryMessage]:
    """Removes the initial messages from the body, and validates them."""
    history = validated(GivenHistory, {"messages": wanted.pop("messages", [])}, strict=True)
    return [HistoryMessage.model_validate(each.model_dump()) for each in history.messages]


def _opened(session: SessionCreated) -> Response:
    reply = SessionCreatedReply(session_id=session.session_id, config_hash=session.config_hash)
    return created(reply.model_dump_json().encode(), f"/sessions/{session.session_id}/")


def _for_public(given: bytes) -> bytes:
    """Returns the session with only the parts of the agent's configuration that visitors may see."""
    session = orjson.loads(given)
    configuration = session["agent_config"]
    session["agent_config"] = {name: configuration[name] for name in _SHOWN_TO_PUBLIC if name in configuration}
    return orjson.dumps(session)
