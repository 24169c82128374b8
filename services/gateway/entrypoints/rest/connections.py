"""Serves ``/connections/…``: public keys for web pages."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identity import Scope
from libs.contracts.resources.connections import Connection, ConnectionPage, CreateConnectionBody
from services.gateway.domain import connections as domain
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import created, model_answer
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import answer, errors, public_router
from services.gateway.entrypoints.door.writes import IdempotentWrite, PlainWrite
from services.gateway.entrypoints.rest.resources import ResourcesDep

router = public_router("/connections", "Access")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.KEYS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.KEYS_WRITE])]
NewConnection = Annotated[CreateConnectionBody, Depends(ParsedBody(CreateConnectionBody))]


@router.post(
    "/",
    operation_id="connections.create",
    summary="Create a connection",
    description=(
        "Creates a public key. With it, pages on the allowed origins can chat with one agent: create sessions, send"
        " messages, read sessions and use their artifacts. Anyone who has a session's ID can continue the session."
        " Public keys can't list sessions."
    ),
    status_code=201,
    responses={201: answer("The new connection.", Connection, location=True), **errors(404, 409)},
)
async def create_connection(
    caller: Writer, body: NewConnection, write: IdempotentWrite, resources: ResourcesDep
) -> Response:
    connection = await resources.connections.create(write, caller, body)
    return created(_shown(connection).model_dump_json().encode(), f"/connections/{connection.id}/")


@router.get(
    "/",
    operation_id="connections.list",
    summary="List connections",
    description="Lists your connections. With a `company:…` scope, lists all company connections.",
    responses={200: answer("Connections, newest first.", ConnectionPage)},
)
async def list_connections(caller: Reader, page: Page, resources: ResourcesDep) -> Response:
    found = await resources.connections.page(caller.identity, **page.params())
    shown = ConnectionPage(connections=[_shown(connection) for connection in found.items], **found.facts)
    return model_answer(shown)


@router.get(
    "/{id}/",
    operation_id="connections.get",
    summary="Get a connection",
    responses={200: answer("The connection.", Connection), **errors(404)},
)
async def get_connection(id: str, caller: Reader, resources: ResourcesDep) -> Response:
    connection = await resources.connections.get(caller.identity, id)
    return model_answer(_shown(connection))


@router.delete(
    "/{id}/",
    operation_id="connections.delete",
    summary="Delete a connection",
    description="The key stops working immediately, and the end users' open streams close. Sessions remain.",
    status_code=204,
    responses={204: answer("The key no longer works."), **errors(404)},
)
async def delete_connection(id: str, _: Writer, write: PlainWrite, resources: ResourcesDep) -> Response:
    await resources.connections.delete(write, id)
    return Response(status_code=204)


def _shown(connection: domain.Connection) -> Connection:
    return Connection.model_validate({**asdict(connection), "connection_key": connection.key})
