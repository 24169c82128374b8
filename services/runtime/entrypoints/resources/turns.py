"""Commands, reads and event streams of turns."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.resources import turns
from libs.contracts.resources.turns import ExecuteTurn, Turn, TurnPage, TurnStatus, WatchedTurn
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Limit
from libs.service_defaults.internal_routes import encode_events
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.domain.sessions import require
from services.runtime.use_cases.admit_turn import AdmitTurn
from services.runtime.use_cases.cancel_turn import CancelTurn
from services.runtime.use_cases.read_turn_stream import ReadTurnStream

Count = Annotated[int, Query(ge=0, le=2**31)]


def serve_turns(
    commands: CommandRouter,
    http: FastAPI,
    admit: AdmitTurn,
    cancel: CancelTurn,
    reads: PostgresSessionReads,
    streams: ReadTurnStream,
) -> None:
    commands.handle_raw(ExecuteTurn, admit)
    commands.handle(turns.CancelTurn, cancel)
    http.include_router(_reads(reads))
    http.include_router(_streams(streams))


def _reads(reads: PostgresSessionReads) -> APIRouter:
    router = APIRouter(prefix="/internal")

    @router.get("/turns")
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

    @router.get("/turns/{turn_id}")
    async def get_turn(turn_id: str, who: Caller) -> Turn:
        return require("turn", await reads.turn(None, id_of(turn_id, "turn"), who))

    @router.get("/sessions/{session_id}/turns/{turn_id}")
    async def get_turn_of_session(session_id: str, turn_id: str, who: Caller) -> Turn:
        return require("turn", await reads.turn(id_of(session_id, "session"), id_of(turn_id, "turn"), who))

    return router


def _streams(streams: ReadTurnStream) -> APIRouter:
    router = APIRouter(prefix="/internal/sessions/{session_id}/turns/{turn_id}")

    @router.post("/watch")
    async def watch(session_id: str, turn_id: str, who: Caller, after_step: Count = 0) -> WatchedTurn:
        """Marks the turn as watched. Each request makes the worker send the text again."""
        session_id, turn_id = id_of(session_id, "session"), id_of(turn_id, "turn")
        return require("turn", await streams.watch(session_id, turn_id, who, after_step=after_step))

    @router.get("/events")
    async def events(session_id: str, turn_id: str, who: Caller, after: Count = 0) -> Response:
        session_id, turn_id = id_of(session_id, "session"), id_of(turn_id, "turn")
        found = await streams.events(session_id, turn_id, who, after=after)
        return Response(encode_events(found), media_type="application/octet-stream")

    return router
