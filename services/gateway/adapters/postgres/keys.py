"""API keys in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from libs.contracts.events.gateway import ApiKeyCreated, ApiKeyRevoked
from libs.contracts.identity import Identity
from libs.eventing import MessageContext, Outbox, Transaction
from libs.persistence import Database
from services.gateway.adapters.postgres.idempotency import claim
from services.gateway.adapters.postgres.pages import visible_page
from services.gateway.domain.accounts import ApiKey, KeyOwner
from services.gateway.domain.idempotency import Write

_NAMES: Final = (
    "id", "company_id", "user_id", "name", "prefix", "scopes", "rate_limit", "created_at", "expires_at", "revoked_at",
    "successor_id",
)  # fmt: skip
_COLUMNS: Final = ", ".join(_NAMES)
_WITH_OWNER: Final = f"""
SELECT {", ".join(f"k.{name}" for name in _NAMES)}, c.name, u.name
FROM api_keys k JOIN companies c ON c.id = k.company_id JOIN users u ON u.id = k.user_id
"""
_KEY: Final = f"SELECT {_COLUMNS} FROM api_keys WHERE company_id = %s AND id = %s"
_INSERT: Final = """
INSERT INTO api_keys (id, company_id, user_id, name, prefix, digest, scopes, rate_limit, created_at, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_SUPERSEDE: Final = """
UPDATE api_keys SET successor_id = %s, expires_at = least(expires_at, %s)
WHERE company_id = %s AND id = %s AND successor_id IS NULL AND revoked_at IS NULL
"""
_REVOKE: Final = "UPDATE api_keys SET revoked_at = %s WHERE company_id = %s AND id = %s AND revoked_at IS NULL"


class PostgresKeys:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def find_by_digest(self, digest: bytes) -> KeyOwner | None:
        return await self._owner(f"{_WITH_OWNER} WHERE k.digest = %s", digest)

    async def find_by_id(self, key_id: str) -> KeyOwner | None:
        return await self._owner(f"{_WITH_OWNER} WHERE k.id = %s", key_id)

    async def _owner(self, statement: str, value: bytes | str) -> KeyOwner | None:
        async with self._database.connection() as connection:
            row = await (await connection.execute(statement.encode(), (value,))).fetchone()
        if row is None:
            return None
        *key, company_name, user_name = row
        return KeyOwner(key=_key(key), company_name=company_name, user_name=user_name)

    async def key(self, company_id: str, key_id: str) -> ApiKey | None:
        async with self._database.connection() as connection:
            row = await (await connection.execute(_KEY, (company_id, key_id))).fetchone()
        return None if row is None else _key(row)

    async def keys(self, reader: Identity, *, limit: int, offset: int) -> tuple[Sequence[ApiKey], int]:
        rows, total = await visible_page(self._database, "api_keys", _COLUMNS, reader, limit, offset)
        return [_key(row) for row in rows], total

    async def add_key(self, key: ApiKey, digest: bytes, write: Write) -> None:
        async with self._outbox.transaction(MessageContext(key.company_id, write.correlation_id)) as transaction:
            await claim(transaction.connection, write, key.id)
            await _insert(transaction, key, digest)

    async def replace_key(
        self, old: ApiKey, successor: ApiKey, digest: bytes, write: Write, *, old_expires_at: datetime
    ) -> bool:
        try:
            async with self._outbox.transaction(MessageContext(old.company_id, write.correlation_id)) as transaction:
                await claim(transaction.connection, write, successor.id)
                await _insert(transaction, successor, digest)
                cursor = await transaction.connection.execute(
                    _SUPERSEDE, (successor.id, old_expires_at, old.company_id, old.id)
                )
                if cursor.rowcount == 0:
                    raise _Superseded
        except _Superseded:
            return False
        return True

    async def revoke_key(self, key: ApiKey, write: Write, *, at: datetime) -> None:
        async with self._outbox.transaction(MessageContext(key.company_id, write.correlation_id)) as transaction:
            cursor = await transaction.connection.execute(_REVOKE, (at, key.company_id, key.id))
            if cursor.rowcount:
                transaction.emit(ApiKeyRevoked(key_id=key.id), subject=key.id)


class _Superseded(Exception):
    """The key was rotated or revoked by another request meanwhile; rolls the transaction back."""


async def _insert(transaction: Transaction, key: ApiKey, digest: bytes) -> None:
    values = (key.id, key.company_id, key.user_id, key.name, key.prefix, digest, sorted(key.scopes), key.rate_limit)
    await transaction.connection.execute(_INSERT, (*values, key.created_at, key.expires_at))
    transaction.emit(ApiKeyCreated(key_id=key.id, prefix=key.prefix, user_id=key.user_id), subject=key.id)


def _key(row: Sequence[Any]) -> ApiKey:
    values = dict(zip(_NAMES, row, strict=True))
    for name in ("id", "company_id", "user_id"):
        values[name] = str(values[name])
    successor = values.pop("successor_id")
    scopes = frozenset(values.pop("scopes"))
    return ApiKey(**values, scopes=scopes, successor_id=None if successor is None else str(successor))
