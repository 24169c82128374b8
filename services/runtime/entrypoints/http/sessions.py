"""Reads of sessions, messages and turns, in the form of the public API."""

from datetime import datetime
from typing import TypeVar

from fastapi import APIRouter

from libs.contracts.api.sessions import MessagePage, Session, SessionPage, Turn, TurnPage, TurnStatus
from libs.contracts.errors import NotFound
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.runtime.domain.ports import SessionReads
from services.runtime.domain.sessions import valid_id

T = TypeVar("T")


def sessions_router(reads: SessionReads) -> APIRouter:
    router = APIRouter(prefix="/internal/sessions")

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


def turns_router(reads: SessionReads) -> APIRouter:
    router = APIRouter(prefix="/internal/turns")

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


def _found(thing: T | None, name: str) -> T:
    if thing is None:
        raise NotFound(f"there is no such {name}")
    return thing
