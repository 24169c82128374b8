"""What every owner answers about its commands and events."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from libs.contracts.errors import NotFound
from libs.contracts.identity import Identity
from libs.eventing import CommandRouter, Outbox
from libs.service_defaults._frames import frame
from libs.service_defaults.callers import caller

Caller = Annotated[Identity, Depends(caller)]


def bus_routes(commands: CommandRouter, outbox: Outbox, *, source: str) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/internal/commands/{command_id}")
    async def command(command_id: str, identity: Caller) -> Response:
        """200 with the recorded outcome, 202 while it is under way, 404 when it was never taken up."""
        outcome = await outbox.outcome(command_id)
        known = (
            await commands.knows(command_id, identity.company_id)
            if outcome is None
            else outcome.company_id == identity.company_id
        )
        if not known:
            raise NotFound("this command is not known")
        if outcome is None:
            return Response(status_code=202)
        return Response(frame(outcome.envelope(source), outcome.payload), media_type="application/octet-stream")

    @router.get("/internal/events/{event_id}/payload")
    async def payload(event_id: str, identity: Caller) -> Response:
        found = await outbox.payload(event_id, identity.company_id)
        if found is None:
            raise NotFound("this event is not known")
        return Response(found, media_type="application/json")

    return router
