"""Serves ``/ag-ui/{agent_key}``: every agent, for AG-UI clients, with one request per run."""

from typing import Annotated, Final

from ag_ui.core import BaseEvent
from ag_ui.encoder import EventEncoder
from fastapi import Request, Security
from starlette.responses import Response

from libs.contracts.errors import PermissionDenied
from libs.contracts.identity import Scope
from libs.service_defaults.errors import error_body
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.ag_ui.run_events import run_error
from services.gateway.entrypoints.ag_ui.run_input import find_image_data, run_input
from services.gateway.entrypoints.ag_ui.runs import Runs
from services.gateway.entrypoints.door.application import Door, DoorDep, ProtocolApplication, protocol_router
from services.gateway.entrypoints.door.bodies import decode_body
from services.gateway.entrypoints.door.callers import by_api_key_or_public_key
from services.gateway.entrypoints.door.errors import ErrorShape
from services.gateway.entrypoints.door.image_bodies import read_with_images, take_out_images
from services.gateway.entrypoints.door.streams import rendered
from services.gateway.entrypoints.door.writes import PlainWrite

PREFIX: Final = "/ag-ui"
router: Final = protocol_router(PREFIX + "/{agent_key}")
_MAX_BODY: Final = 4 * 1024 * 1024
"""The limit is large because a client sends its whole history with every run."""
_ENCODER: Final = EventEncoder()
Caller = Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.RUNTIME_EXECUTE, Scope.SESSIONS_WRITE])]


def _rendered(event: BaseEvent) -> bytes:
    return _ENCODER.encode(event).encode()


SHAPE: Final = ErrorShape(error_body, lambda info: _rendered(run_error(info)))
"""Ends streams with the protocol's error event. Rejected requests get errors like those of ``/api/v1``."""


class AGUIApplication(ProtocolApplication):
    def __init__(self, door: Door) -> None:
        super().__init__(door, PREFIX, (router,), SHAPE)


@router.post("")
@router.post("/")
async def run(request: Request, agent_key: str, caller: Caller, write: PlainWrite, door: DoorDep) -> Response:
    if caller.public is not None and caller.public.agent_key != agent_key:
        raise PermissionDenied("A public key only gives access to its own agent.")
    body = await read_with_images(request, _MAX_BODY)
    values = await decode_body(body, request.headers.get("content-type", ""))
    await take_out_images(request, values, len(body), _MAX_BODY, ("messages",), find_image_data)
    del body
    given = run_input(values, caller)
    write.images = request.state.images
    headers: dict[str, str] = {}
    runs = Runs(door=door, caller=caller, write=write, agent_key=agent_key, headers=headers)
    return await door.streams.respond(request, rendered(runs(given), _rendered), caller, headers)
