"""Actions of waiting turns: the open ones, and answers to them."""

from typing import Annotated

from fastapi import Depends, Query, Security
from pydantic import Field
from starlette.responses import Response

from libs.contracts.api.sessions import ActionPage, ResolveActionBody, Turn
from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import entity_in, turn_answer
from services.gateway.entrypoints.door.application import DoorDep, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import (
    by_api_key,
    by_api_key_or_public_key,
    require_scopes,
)
from services.gateway.entrypoints.door.described import answer, errors
from services.gateway.entrypoints.door.queries import OptionalText, PageQuery
from services.gateway.entrypoints.door.routes import public_router
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.entrypoints.rest import examples
from services.gateway.entrypoints.rest.reference.texts import RESOLVE
from services.gateway.use_cases.turns import scope_to_answer

router = public_router("", "Runtime")


class ActionsQuery(PageQuery):
    kind: OptionalText = Field(
        None, description="Only actions of this kind.", json_schema_extra={"enum": ["approval", "tool_result"]}
    )
    session_id: OptionalText = Field(None, description="Only actions of this session.")


@router.post(
    "/runtime/{session_id}/turns/{turn_id}/actions/{action_id}/",
    summary="Answer an action that a turn is waiting for",
    description=RESOLVE,
    responses={200: answer("The turn, with the actions that are still open.", Turn), **errors(403, 404, 409)},
)
async def resolve_action(
    session_id: str,
    turn_id: str,
    action_id: str,
    caller: Annotated[Principal, Security(by_api_key_or_public_key)],
    body: Annotated[ResolveActionBody, Depends(ParsedBody(ResolveActionBody, examples.ACTION_ANSWERS))],
    write: IdempotentWrite,
    door: DoorDep,
) -> Response:
    require_scopes(caller, [scope_to_answer(body)])
    resolved = await door.turns.resolve(write, session_id, turn_id, action_id, body)
    return turn_answer(entity_in(resolved, "turn"), caller)


@router.get(
    "/actions/",
    summary="List the open actions",
    description="What the turns of your sessions are waiting for; with a `company:…` scope of all of the company.",
    responses={200: answer("Open actions, oldest first.", ActionPage)},
)
async def list_actions(
    caller: Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_READ])],
    page: Annotated[ActionsQuery, Query()],
    upstream: Upstream,
) -> Response:
    return await upstream.get(caller, "runtime", "/internal/actions", page.params())
