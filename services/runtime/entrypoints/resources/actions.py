"""Commands and reads of actions."""

from fastapi import FastAPI

from libs.contracts.resources.actions import ActionPage, ResolveAction
from libs.contracts.resources.turns import ActionKind
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.use_cases.waits import Waits


def serve_actions(commands: CommandRouter, http: FastAPI, waits: Waits, reads: PostgresSessionReads) -> None:
    commands.handle(ResolveAction, waits.resolve)

    @http.get("/internal/actions")
    async def list_actions(
        who: Caller,
        kind: ActionKind | None = None,
        session_id: str | None = None,
        limit: Limit = 50,
        offset: Offset = 0,
        cursor: Cursor = None,
    ) -> ActionPage:
        return await reads.actions(who, kind=kind, session_id=session_id, limit=limit, offset=offset, cursor=cursor)
