"""Reads of sessions, turns and actions, in the public API's format."""

from datetime import datetime
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query
from starlette.responses import Response

from libs.contracts.errors import NotFound
from libs.contracts.resources.actions import ActionPage
from libs.contracts.resources.messages import MessagePage
from libs.contracts.resources.sessions import Session, SessionPage
from libs.contracts.resources.turns import ActionKind, Turn, TurnPage, TurnStatus, WatchedTurn
from libs.service_defaults import Caller, Cursor, Limit, Offset
from libs.service_defaults.internal_routes import encode_events
from services.runtime.domain.ports import SessionReads
from services.runtime.domain.sessions import valid_id
from services.runtime.use_cases.read_turn_stream import ReadTurnStream

T = TypeVar("T")
Count = Annotated[int, Query(ge=0, le=2**31)]


def reads_router(reads: SessionReads, streams: ReadTurnStream) -> APIRouter:
    router = APIRouter(prefix="/internal")
    router.include_router(_sessions(reads))
    router.include_router(_turns(reads))
    router.include_router(_streams(streams))

    @router.get("/actions")
    async def list_actions(
        who: Caller,
        kind: ActionKind | None = None,
        session_id: str | None = None,
        limit: Limit = 50,
        offset: Offset = 0,
        cursor: Cursor = None,
    ) -> ActionPage:
        return await reads.actions(who, kind=kind, session_id=session_id, limit=limit, offset=offset, cursor=cursor)

    return router


def _sessions(reads: SessionReads) -> APIRouter:
    router = APIRouter(prefix="/sessions")

    @router.get("")
    async def list_sessions(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> SessionPage:
        return await reads.sessions(who, limit=limit, offset=offset, cursor=cursor)

    @router.get("/{session_id}")
    async def get_session(session_id: str, who: Caller) -> Session:
        return _found(await reads.session(valid_id("session", session_id), who), "session")

    @router.get("/{session_id}/messages")
    async def list_messages(
        session_id: str,
        who: Caller,
        limit: Limit = 50,
        offset: Offset = 0,
        turn_id: str | None = None,
        cursor: Cursor = None,
    ) -> MessagePage:
        session_id = valid_id("session", session_id)
        page = await reads.messages(session_id, who, limit=limit, offset=offset, turn_id=turn_id, cursor=cursor)
        return _found(page, "session")

    @router.get("/{session_id}/turns/{turn_id}")
    async def get_turn(session_id: str, turn_id: str, who: Caller) -> Turn:
        return _found(await reads.turn(valid_id("session", session_id), valid_id("turn", turn_id), who), "turn")

    return router


def _turns(reads: SessionReads) -> APIRouter:
    router = APIRouter(prefix="/turns")

    @router.get("")
    async def list_turns(
        who: Caller,
        agent_id: str,
        session_id: str | None = None,
        status: TurnStatus | None = None,
        changed_after: datetime | None = None,
        after: str | None = None,
        limit: Limit = 50,
    ) -> TurnPage:
        return await reads.turns(
            who,
            agent_id=agent_id,
            session_id=session_id,
            status=status,
            changed_after=changed_after,
            limit=limit,
            cursor=after,
        )

    @router.get("/{turn_id}")
    async def get_turn(turn_id: str, who: Caller) -> Turn:
        return _found(await reads.turn(None, valid_id("turn", turn_id), who), "turn")

    return router


def _streams(streams: ReadTurnStream) -> APIRouter:
    router = APIRouter(prefix="/sessions/{session_id}/turns/{turn_id}")

    @router.post("/watch")
    async def watch(session_id: str, turn_id: str, who: Caller, after_step: Count = 0) -> WatchedTurn:
        """Safe to repeat: another request sends the text again."""
        session_id, turn_id = valid_id("session", session_id), valid_id("turn", turn_id)
        return _found(await streams.watch(session_id, turn_id, who, after_step=after_step), "turn")

    @router.get("/events")
    async def events(session_id: str, turn_id: str, who: Caller, after: Count = 0) -> Response:
        session_id, turn_id = valid_id("session", session_id), valid_id("turn", turn_id)
        found = await streams.events(session_id, turn_id, who, after=after)
        return Response(encode_events(found), media_type="application/octet-stream")

    return router


def _found(thing: T | None, name: str) -> T:
    if thing is None:
        raise NotFound(f"There is no such {name}.")
    return thing
