"""Turns for readers of their streams: marked as watched, with their recorded events."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from libs.contracts.api.sessions import WatchedTurn
from libs.contracts.errors import NotFound
from libs.service_defaults import Caller
from libs.service_defaults.internal_routes import encode_events
from services.runtime.domain.sessions import valid_id
from services.runtime.use_cases.list_turn_events import ListTurnEvents
from services.runtime.use_cases.watch_turn import WatchTurn

Count = Annotated[int, Query(ge=0, le=2**31)]


def watched_turns_router(watch_turn: WatchTurn, list_events: ListTurnEvents) -> APIRouter:
    router = APIRouter(prefix="/internal/sessions/{session_id}/turns/{turn_id}")

    @router.post("/watch")
    async def watch(session_id: str, turn_id: str, who: Caller, after_step: Count = 0) -> WatchedTurn:
        """Repeatable: one more request makes the text be sent once more."""
        session_id, turn_id = valid_id("session", session_id), valid_id("turn", turn_id)
        found = await watch_turn(session_id, turn_id, who, after_step=after_step)
        if found is None:
            raise NotFound("there is no such turn")
        return found

    @router.get("/events")
    async def events(session_id: str, turn_id: str, who: Caller, after: Count = 0) -> Response:
        session_id, turn_id = valid_id("session", session_id), valid_id("turn", turn_id)
        found = await list_events(session_id, turn_id, who, after=after)
        return Response(encode_events(found), media_type="application/octet-stream")

    return router
