"""Stores connections in PostgreSQL."""

from dataclasses import asdict
from typing import Any, Final

from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.contracts.pages import Page
from libs.contracts.resources.connections import ConnectionCreated, ConnectionDeleted
from libs.eventing import Outbox
from libs.persistence import Database
from services.gateway.adapters.postgres.idempotency import claim
from services.gateway.adapters.postgres.pages import visible_page
from services.gateway.domain.connections import Connection, ConnectionOwner
from services.gateway.domain.idempotency import Write

_COLUMNS: Final = """
k.id::text, k.company_id::text, k.user_id::text, k.name, k.key, k.agent_id::text, k.agent_key, k.allowed_origins,
k.scopes, k.quota, k.created_at, k.expires_at
"""
_BY_KEY: Final = f"""
SELECT {_COLUMNS}, c.name AS company_name, u.name AS user_name
FROM connections k JOIN companies c ON c.id = k.company_id JOIN users u ON u.id = k.user_id
WHERE k.key = %s
"""
_ONE: Final = f"SELECT {_COLUMNS} FROM connections k WHERE company_id = %s AND id = %s"
_INSERT: Final = """
INSERT INTO connections (id, company_id, user_id, name, key, agent_id, agent_key, allowed_origins, scopes, quota,
                         created_at, expires_at)
VALUES (%(id)s, %(company_id)s, %(user_id)s, %(name)s, %(key)s, %(agent_id)s, %(agent_key)s, %(allowed_origins)s,
        %(scopes)s, %(quota)s, %(created_at)s, %(expires_at)s)
"""


class PostgresConnections:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def by_key(self, key: str) -> ConnectionOwner | None:
        rows = await self._database.records(_BY_KEY, (key,))
        if not rows:
            return None
        company_name, user_name = rows[0].pop("company_name"), rows[0].pop("user_name")
        return ConnectionOwner(connection=_connection(rows[0]), company_name=company_name, user_name=user_name)

    async def connection(self, company_id: str, connection_id: str) -> Connection | None:
        rows = await self._database.records(_ONE, (company_id, connection_id))
        return _connection(rows[0]) if rows else None

    async def connections(
        self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Connection]:
        page = await visible_page(
            self._database, "connections k", _COLUMNS, reader, limit=limit, offset=offset, cursor=cursor
        )
        return page.map(_connection)

    async def add(self, connection: Connection, write: Write) -> None:
        lists = {"allowed_origins": list(connection.allowed_origins), "scopes": sorted(connection.scopes)}
        context = MessageContext(connection.company_id, write.correlation_id)
        async with self._outbox.transaction(context) as transaction:
            await claim(transaction.connection, write, connection.id)
            await transaction.connection.execute(_INSERT, {**asdict(connection), **lists})
            created = ConnectionCreated(
                connection_id=connection.id, agent_id=connection.agent_id, user_id=connection.user_id
            )
            transaction.emit(created, subject=connection.id, owner_id=connection.user_id)

    async def delete(self, connection: Connection, write: Write) -> None:
        context = MessageContext(connection.company_id, write.correlation_id)
        async with self._outbox.transaction(context) as transaction:
            cursor = await transaction.connection.execute("DELETE FROM connections WHERE id = %s", (connection.id,))
            if cursor.rowcount:
                deleted = ConnectionDeleted(connection_id=connection.id)
                transaction.emit(deleted, subject=connection.id, owner_id=connection.user_id)


def _connection(row: dict[str, Any]) -> Connection:
    lists = {"allowed_origins": tuple(row["allowed_origins"]), "scopes": frozenset(row["scopes"])}
    return Connection(**{**row, **lists})
