"""Serves ``/retention/``: how long the company's sessions are kept."""

from typing import Annotated

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identity import Scope
from libs.contracts.resources.retention import Retention, SetRetention, SetRetentionBody
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import rendered
from services.gateway.entrypoints.door.application import Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.routes import answer, public_router

router = public_router("/retention", "Sessions")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.COMPANY_WRITE])]


@router.get(
    "/",
    operation_id="retention.get",
    summary="Get the session retention period",
    responses={200: answer("How long the company's sessions are kept.", Retention)},
)
async def get_retention(caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "runtime", "/internal/retention")


@router.put(
    "/",
    operation_id="retention.set",
    summary="Set the session retention period",
    description=(
        "Deletes the company's sessions after `session_retention_days` without a turn, and publishes `session.deleted`"
        " events. Sessions already past this period are deleted within hours. Send `null` to restore the"
        " installation's default."
    ),
    responses={200: answer("The new retention period.", Retention)},
)
async def set_retention(
    _: Writer, body: Annotated[SetRetentionBody, Depends(ParsedBody(SetRetentionBody))], submit: Submit
) -> Response:
    return rendered(await submit(SetRetention(session_retention_days=body.session_retention_days)), "retention")
