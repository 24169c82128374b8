"""Open actions of waiting turns, in the form of the public API."""

from fastapi import APIRouter

from libs.contracts.api.sessions import ActionKind, ActionPage
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.runtime.domain.ports import SessionReads


def actions_router(reads: SessionReads) -> APIRouter:
    router = APIRouter(prefix="/internal")

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
