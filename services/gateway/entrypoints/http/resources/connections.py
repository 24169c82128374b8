"""``/connections/…``: public keys for web pages."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from libs.contracts.identity import Scope
from libs.contracts.timestamps import format_time
from services.gateway.domain import connections as domain
from services.gateway.domain.ports import ConnectionStore, Upstreams
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Body, Operation
from services.gateway.entrypoints.http.schemas import Connection, ConnectionPage, CreateConnectionBody
from services.gateway.entrypoints.http.validation import expiry, page_of
from services.gateway.use_cases.change_connections import (
    ConnectionRequest,
    CreateConnection,
    DeleteConnection,
    GetConnection,
)

_TAG: Final = "Access"


class Connections:
    def __init__(
        self,
        store: ConnectionStore,
        upstreams: Upstreams,
        *,
        now: Callable[[], datetime],
        forget: Callable[[str], None],
    ) -> None:
        self._store = store
        self._create_connection = CreateConnection(store, upstreams, now)
        self._get_connection = GetConnection(store)
        self._delete_connection = DeleteConnection(store, forget)
        self._now = now

    async def create(self, request: Request) -> Reply:
        body: CreateConnectionBody = request.body
        wanted = ConnectionRequest(
            name=body.name,
            agent_id=body.agent_id,
            agent_key=body.agent_key,
            allowed_origins=tuple(dict.fromkeys(body.allowed_origins)),
            scopes=None if body.scopes is None else frozenset(body.scopes),
            quota=body.quota,
            expires_at=expiry(body.expires_at, self._now()),
        )
        connection = await self._create_connection(request.write(), request.principal, wanted)
        location = f"/api/v1/connections/{connection.id}/"
        return Reply(201, _shown(connection).model_dump_json().encode(), [(b"location", location.encode())])

    async def list(self, request: Request) -> Reply:
        limit, offset = page_of(request.query)
        found, total = await self._store.connections(request.principal.identity, limit=limit, offset=offset)
        page = ConnectionPage(
            connections=[_shown(connection) for connection in found],
            total=total,
            has_more=offset + len(found) < total,
        )
        return Reply(200, page.model_dump_json().encode())

    async def get(self, request: Request) -> Reply:
        connection = await self._get_connection(request.principal.identity, request.parameters["id"])
        return Reply(200, _shown(connection).model_dump_json().encode())

    async def delete(self, request: Request) -> Reply:
        await self._delete_connection(request.write(), request.parameters["id"])
        return Reply(204)

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/connections/",
                name="create_connection",
                summary="Make a connection",
                description=(
                    "A public key that pages of the allowed origins may use to talk to one agent: to open sessions"
                    " with it, execute in them, read them and use their artifacts. Whoever has a session's id may"
                    " go on with it; sessions cannot be listed with a public key."
                ),
                tag=_TAG,
                handler=self.create,
                scope=Scope.KEYS_WRITE,
                writes=True,
                body=Body(model=CreateConnectionBody, examples=examples.CONNECTIONS),
                answers={201: Answer(description="The new connection.", model=Connection, headers=("Location",))},
                errors=(404, 409),
            ),
            Operation(
                method="GET",
                path="/connections/",
                name="list_connections",
                summary="List connections",
                description="Your own; with a `company:…` scope all of the company.",
                tag=_TAG,
                handler=self.list,
                scope=Scope.KEYS_READ,
                paged=True,
                answers={200: Answer(description="Connections, newest first.", model=ConnectionPage)},
                errors=(422,),
            ),
            Operation(
                method="GET",
                path="/connections/{id}/",
                name="get_connection",
                summary="Get a connection",
                tag=_TAG,
                handler=self.get,
                scope=Scope.KEYS_READ,
                answers={200: Answer(description="The connection.", model=Connection)},
                errors=(404,),
            ),
            Operation(
                method="DELETE",
                path="/connections/{id}/",
                name="delete_connection",
                summary="Delete a connection",
                description="Its key stops working at once, and open streams of its visitors end. Sessions stay.",
                tag=_TAG,
                handler=self.delete,
                scope=Scope.KEYS_WRITE,
                answers={204: Answer(description="The key does not work any more.")},
                errors=(404,),
            ),
        )


def _shown(connection: domain.Connection) -> Connection:
    return Connection(
        id=connection.id,
        name=connection.name,
        connection_key=connection.key,
        agent_id=connection.agent_id,
        agent_key=connection.agent_key,
        allowed_origins=list(connection.allowed_origins),
        scopes=sorted(connection.scopes),
        quota=connection.quota,
        user_id=connection.user_id,
        created_at=format_time(connection.created_at),
        expires_at=None if connection.expires_at is None else format_time(connection.expires_at),
    )
