"""Commands and reads of sessions and their messages."""

from fastapi import APIRouter, FastAPI

from libs.contracts.identifiers import id_of
from libs.contracts.resources.messages import MessagePage
from libs.contracts.resources.sessions import (
    AddMessages,
    CreateSession,
    DeleteSession,
    ForkSession,
    Session,
    SessionPage,
    UpdateSession,
)
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.domain.sessions import require
from services.runtime.use_cases.sessions import Sessions


def serve_sessions(commands: CommandRouter, http: FastAPI, sessions: Sessions, reads: PostgresSessionReads) -> None:
    commands.handle_raw(CreateSession, sessions.create)
    commands.handle(ForkSession, sessions.fork)
    commands.handle(UpdateSession, sessions.update)
    commands.handle(AddMessages, sessions.add_messages)
    # The outcome follows when the running turn has stopped.
    commands.handle(DeleteSession, sessions.delete, ends_later=True)
    router = APIRouter(prefix="/internal/sessions")

    @router.get("")
    async def list_sessions(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> SessionPage:
        return await reads.sessions(who, limit=limit, offset=offset, cursor=cursor)

    @router.get("/{session_id}")
    async def get_session(session_id: str, who: Caller) -> Session:
        return require("session", await reads.session(id_of(session_id, "session"), who))

    @router.get("/{session_id}/messages")
    async def list_messages(
        session_id: str,
        who: Caller,
        limit: Limit = 50,
        offset: Offset = 0,
        turn_id: str | None = None,
        cursor: Cursor = None,
    ) -> MessagePage:
        session_id = id_of(session_id, "session")
        page = await reads.messages(session_id, who, limit=limit, offset=offset, turn_id=turn_id, cursor=cursor)
        return require("session", page)

    http.include_router(router)
