"""API keys in PostgreSQL, each change with its event in the outbox."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from libs.contracts.events.gateway import ApiKeyCreated, ApiKeyRevoked
from libs.eventing import MessageContext, Outbox, Transaction
from libs.persistence import Database
from services.gateway.adapters.key_rows import COLUMNS, key_from
from services.gateway.adapters.postgres_idempotency import claim
from services.gateway.domain.accounts import ApiKey, KeyOwner
from services.gateway.domain.idempotency import IdempotentRequest

_HOLDERS: Final = f"""
SELECT {", ".join(f"k.{column.strip()}" for column in COLUMNS.split(","))}, c.name, u.name
FROM api_keys k JOIN companies c ON c.id = k.company_id JOIN users u ON u.id = k.user_id
"""
_KEY: Final = f"SELECT {COLUMNS} FROM api_keys WHERE company_id = %s AND id = %s"
_PAGE: Final = f"""
SELECT {COLUMNS} FROM api_keys
WHERE company_id = %(company)s AND (%(user)s::uuid IS NULL OR user_id = %(user)s)
ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s
"""
_COUNT: Final = """
SELECT count(*) FROM api_keys WHERE company_id = %(company)s AND (%(user)s::uuid IS NULL OR user_id = %(user)s)
"""
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
        return await self._owner(f"{_HOLDERS} WHERE k.digest = %s", digest)

    async def find_by_id(self, key_id: str) -> KeyOwner | None:
        return await self._owner(f"{_HOLDERS} WHERE k.id = %s", key_id)

    async def _owner(self, statement: str, value: bytes | str) -> KeyOwner | None:
        async with self._database.connection() as connection:
            row = await (await connection.execute(statement.encode(), (value,))).fetchone()
        if row is None:
            return None
        *key, company_name, user_name = row
        return KeyOwner(key=key_from(tuple(key)), company_name=company_name, user_name=user_name)

    async def key(self, company_id: str, key_id: str) -> ApiKey | None:
        async with self._database.connection() as connection:
            row = await (await connection.execute(_KEY, (company_id, key_id))).fetchone()
        return None if row is None else key_from(row)

    async def keys(
        self, company_id: str, user_id: str | None, *, limit: int, offset: int
    ) -> tuple[Sequence[ApiKey], int]:
        values: dict[str, Any] = {"company": company_id, "user": user_id, "limit": limit, "offset": offset}
        async with self._database.connection() as connection:
            rows = await (await connection.execute(_PAGE, values)).fetchall()
            counted = await (await connection.execute(_COUNT, values)).fetchone()
        return [key_from(row) for row in rows], counted[0] if counted else 0

    async def add_key(
        self, key: ApiKey, digest: bytes, *, correlation_id: str, request: IdempotentRequest | None
    ) -> None:
        async with self._outbox.transaction(MessageContext(key.company_id, correlation_id)) as transaction:
            await claim(transaction.connection, request, key.id, correlation_id)
            await _insert(transaction, key, digest)

    async def replace_key(
        self,
        old: ApiKey,
        successor: ApiKey,
        digest: bytes,
        *,
        old_expires_at: datetime,
        correlation_id: str,
        request: IdempotentRequest | None,
    ) -> bool:
        try:
            async with self._outbox.transaction(MessageContext(old.company_id, correlation_id)) as transaction:
                await claim(transaction.connection, request, successor.id, correlation_id)
                await _insert(transaction, successor, digest)
                cursor = await transaction.connection.execute(
                    _SUPERSEDE, (successor.id, old_expires_at, old.company_id, old.id)
                )
                if cursor.rowcount == 0:
                    raise _Superseded
        except _Superseded:
            return False
        return True

    async def revoke_key(self, key: ApiKey, *, at: datetime, correlation_id: str) -> None:
        async with self._outbox.transaction(MessageContext(key.company_id, correlation_id)) as transaction:
            cursor = await transaction.connection.execute(_REVOKE, (at, key.company_id, key.id))
            if cursor.rowcount:
                transaction.emit(ApiKeyRevoked(key_id=key.id), subject=key.id)


class _Superseded(Exception):
    """The key was rotated or revoked by someone else meanwhile; undoes the transaction."""


async def _insert(transaction: Transaction, key: ApiKey, digest: bytes) -> None:
    await transaction.connection.execute(
        _INSERT,
        (
            key.id,
            key.company_id,
            key.user_id,
            key.name,
            key.prefix,
            digest,
            sorted(key.scopes),
            key.rate_limit,
            key.created_at,
            key.expires_at,
        ),
    )
    transaction.emit(ApiKeyCreated(key_id=key.id, prefix=key.prefix, user_id=key.user_id), subject=key.id)
