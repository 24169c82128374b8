"""The server side of internal calls: authenticates the caller, and looks up commands and events."""

from collections.abc import Iterable
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from libs.contracts.errors import AuthenticationFailed, NotFound, PermissionDenied
from libs.contracts.identity import Identity, Scope
from libs.contracts.messages import Envelope, Received, envelope_from_attributes
from libs.eventing import CommandRouter, IdentitySigner, Outbox
from libs.quotas import CompanyAmounts

BEARER: Final = "Bearer "
COMMANDS_PATH: Final = "/internal/commands"
FAILURES_PATH: Final = "/internal/failures"


async def caller(request: Request) -> Identity:
    """A FastAPI dependency that returns the caller's identity. Raises ``AuthenticationFailed``."""
    token = request.headers.get("Authorization", "")
    if not token.startswith(BEARER):
        raise AuthenticationFailed("An internal call needs a service token.")
    signer: IdentitySigner = request.app.state.signer
    return signer.verify_call(token.removeprefix(BEARER))


Caller = Annotated[Identity, Depends(caller)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Cursor = Annotated[str | None, Query(max_length=1000)]
"""The ``next`` value of the previous page."""


def bus_routes(commands: CommandRouter, outbox: Outbox, *, source: str) -> APIRouter:
    """Returns the routes with which other services look up this service's commands and events."""
    router = APIRouter(include_in_schema=False)

    @router.get(COMMANDS_PATH + "/{command_id}")
    async def command(command_id: str, identity: Caller) -> Response:
        """Returns 200 with the outcome, 202 while the command is running, or 404 if the command wasn't accepted."""
        outcome = await outbox.outcome(command_id)
        known = (
            await commands.knows(command_id, identity.company_id)
            if outcome is None
            else outcome.company_id == identity.company_id
        )
        if not known:
            raise NotFound("There is no command with this ID.")
        if outcome is None:
            return Response(status_code=202)
        body = encode_event(outcome.envelope(source), outcome.payload)
        return Response(body, media_type="application/octet-stream")

    @router.get("/internal/events/{event_id}/payload")
    async def payload(event_id: str, identity: Caller) -> Response:
        found = await outbox.payload(event_id, identity.company_id)
        if found is None:
            raise NotFound("There is no event with this ID.")
        return Response(found, media_type="application/json")

    @router.get(FAILURES_PATH)
    async def failures(identity: Caller, correlation_id: str | None = None, limit: Limit = 50) -> Response:
        """Returns the internal errors that events report, with their causes, newest first."""
        if not identity.allows(Scope.INSTALLATION_READ):
            raise PermissionDenied("The credential lacks the scope installation:read.")
        return Response(orjson.dumps(await outbox.failures(correlation_id, limit)), media_type="application/json")

    return router


def amounts_routes(amounts: CompanyAmounts) -> APIRouter:
    """Returns the route for the amounts that the caller's company has stored, by limit name."""
    router = APIRouter(include_in_schema=False)

    @router.get("/internal/amounts")
    async def used(identity: Caller) -> dict[str, int]:
        return await amounts.used(identity.company_id)

    return router


def encode_event(envelope: Envelope, payload: bytes) -> bytes:
    """Encodes an event as a response body: the headers as a line of JSON, then the payload."""
    return orjson.dumps(envelope.attributes()) + b"\n" + payload


def encode_events(events: Iterable[Received]) -> bytes:
    """Encodes several events as two lines each, since encoded JSON contains no line breaks."""
    return b"\n".join(encode_event(event.envelope, event.payload) for event in events)


def decode_events(body: bytes) -> list[Received]:
    lines = body.split(b"\n") if body else []
    return [decode_event(head + b"\n" + payload) for head, payload in zip(lines[::2], lines[1::2], strict=True)]


def decode_event(body: bytes) -> Received:
    head, payload = body.split(b"\n", 1)
    return Received(envelope_from_attributes(orjson.loads(head)), payload)
