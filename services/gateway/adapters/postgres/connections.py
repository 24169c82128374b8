"""Connections in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, Final

from libs.contracts.events.gateway import ConnectionCreated, ConnectionDeleted
from libs.contracts.identity import Identity
from libs.eventing import MessageContext, Outbox
from libs.persistence import Database
from services.gateway.adapters.postgres.idempotency import claim
from services.gateway.adapters.postgres.pages import visible_page
from services.gateway.domain.connections import Connection, ConnectionOwner
from services.gateway.domain.idempotency import Write

_NAMES: Final = (
    "id", "company_id", "user_id", "name", "key", "agent_id", "agent_key", "allowed_origins", "scopes", "quota",
    "created_at", "expires_at",
)  # fmt: skip
_COLUMNS: Final = ", ".join(_NAMES)
_BY_KEY: Final = f"""
SELECT {", ".join(f"k.{name}" for name in _NAMES)}, c.name, u.name
FROM connections k JOIN companies c ON c.id = k.company_id JOIN users u ON u.id = k.user_id
WHERE k.key = %s
"""
_ONE: Final = f"SELECT {_COLUMNS} FROM connections WHERE company_id = %s AND id = %s"
_INSERT: Final = f"""
INSERT INTO connections ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


class PostgresConnections:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def by_key(self, key: str) -> ConnectionOwner | None:
        async with self._database.connection() as session:
            row = await (await session.execute(_BY_KEY, (key,))).fetchone()
        if row is None:
            return None
        *columns, company_name, user_name = row
        return ConnectionOwner(connection=_connection(columns), company_name=company_name, user_name=user_name)

    async def connection(self, company_id: str, connection_id: str) -> Connection | None:
        async with self._database.connection() as session:
            row = await (await session.execute(_ONE, (company_id, connection_id))).fetchone()
        return None if row is None else _connection(row)

    async def connections(self, reader: Identity, *, limit: int, offset: int) -> tuple[Sequence[Connection], int]:
        rows, total = await visible_page(self._database, "connections", _COLUMNS, reader, limit, offset)
        return [_connection(row) for row in rows], total

    async def add(self, connection: Connection, write: Write) -> None:
        values = {name: getattr(connection, name) for name in _NAMES}
        values |= {"allowed_origins": list(connection.allowed_origins), "scopes": sorted(connection.scopes)}
        context = MessageContext(connection.company_id, write.correlation_id)
        async with self._outbox.transaction(context) as transaction:
            await claim(transaction.connection, write, connection.id)
            await transaction.connection.execute(_INSERT, tuple(values[name] for name in _NAMES))
            created = ConnectionCreated(
                connection_id=connection.id, agent_id=connection.agent_id, user_id=connection.user_id
            )
            transaction.emit(created, subject=connection.id)

    async def delete(self, connection: Connection, write: Write) -> None:
        context = MessageContext(connection.company_id, write.correlation_id)
        async with self._outbox.transaction(context) as transaction:
            cursor = await transaction.connection.execute("DELETE FROM connections WHERE id = %s", (connection.id,))
            if cursor.rowcount:
                transaction.emit(ConnectionDeleted(connection_id=connection.id), subject=connection.id)


def _connection(row: Sequence[Any]) -> Connection:
    values = dict(zip(_NAMES, row, strict=True))
    for name in ("id", "company_id", "user_id", "agent_id"):
        values[name] = str(values[name])
    values["allowed_origins"] = tuple(values["allowed_origins"])
    values["scopes"] = frozenset(values["scopes"])
    return Connection(**values)
