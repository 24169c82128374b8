"""Stores API keys in PostgreSQL."""

from datetime import datetime
from typing import Any, Final

from libs.contracts.errors import quota_exceeded
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.contracts.pages import Page
from libs.contracts.resources.keys import ApiKeyCreated, ApiKeyRevoked
from libs.eventing import Outbox, Transaction
from libs.persistence import Database, fetch_value
from services.gateway.adapters.postgres.idempotency import claim
from services.gateway.adapters.postgres.pages import visible_page
from services.gateway.domain.accounts import ApiKey, KeyOwner
from services.gateway.domain.idempotency import Write
from services.gateway.domain.limits import API_KEYS

_COLUMNS: Final = """
k.id::text, k.company_id::text, k.user_id::text, k.name, k.prefix, k.scopes, k.rate_limit, k.created_at, k.expires_at,
k.revoked_at, k.successor_id::text
"""
_WITH_OWNER: Final = f"""
SELECT {_COLUMNS}, c.name AS company_name, u.name AS user_name
FROM api_keys k JOIN companies c ON c.id = k.company_id JOIN users u ON u.id = k.user_id
"""
_KEY: Final = f"SELECT {_COLUMNS} FROM api_keys k WHERE company_id = %s AND id = %s"
_USER: Final = "SELECT 1 FROM users WHERE company_id = %s AND id = %s"
_INSERT: Final = """
INSERT INTO api_keys (id, company_id, user_id, name, prefix, digest, scopes, rate_limit, created_at, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_SUPERSEDE: Final = """
UPDATE api_keys SET successor_id = %s, expires_at = least(expires_at, %s)
WHERE company_id = %s AND id = %s AND successor_id IS NULL AND revoked_at IS NULL
"""
# Locks a number derived from the company: locking its row would block inserts that reference it.
_LOCK_COMPANY: Final = "SELECT pg_advisory_xact_lock(hashtextextended('api_keys/' || %s, 0))"
_COUNT_VALID: Final = """
SELECT count(*) FROM api_keys
WHERE company_id = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
"""
_CHANGE_SCOPES: Final = "UPDATE api_keys SET scopes = %s WHERE company_id = %s AND id = %s"
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
        rows = await self._database.records(statement, (value,))
        if not rows:
            return None
        company_name, user_name = rows[0].pop("company_name"), rows[0].pop("user_name")
        return KeyOwner(key=_key(rows[0]), company_name=company_name, user_name=user_name)

    async def key(self, company_id: str, key_id: str) -> ApiKey | None:
        rows = await self._database.records(_KEY, (company_id, key_id))
        return _key(rows[0]) if rows else None

    async def has_user(self, company_id: str, user_id: str) -> bool:
        return bool(await self._database.execute(_USER, (company_id, user_id)))

    async def keys(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[ApiKey]:
        page = await visible_page(
            self._database, "api_keys k", _COLUMNS, reader, limit=limit, offset=offset, cursor=cursor
        )
        return page.map(_key)

    async def count_valid(self, company_id: str) -> int:
        count: int = await self._database.value(_COUNT_VALID, (company_id,))
        return count

    async def add_key(self, key: ApiKey, digest: bytes, write: Write, *, most: int | None = None) -> None:
        async with self._outbox.transaction(MessageContext(key.company_id, write.correlation_id)) as transaction:
            await claim(transaction.connection, write, key.id)
            await _check_quota(transaction, key.company_id, most)
            await _insert(transaction, key, digest)

    async def replace_key(
        self,
        old: ApiKey,
        successor: ApiKey,
        digest: bytes,
        write: Write,
        *,
        old_expires_at: datetime,
        most: int | None = None,
    ) -> bool:
        try:
            async with self._outbox.transaction(MessageContext(old.company_id, write.correlation_id)) as transaction:
                await claim(transaction.connection, write, successor.id)
                await _check_quota(transaction, old.company_id, most)
                await _insert(transaction, successor, digest, replaces=old.id)
                cursor = await transaction.connection.execute(
                    _SUPERSEDE, (successor.id, old_expires_at, old.company_id, old.id)
                )
                if cursor.rowcount == 0:
                    raise _Superseded
        except _Superseded:
            return False
        return True

    async def change_scopes(self, key: ApiKey, scopes: frozenset[str]) -> None:
        await self._database.execute(_CHANGE_SCOPES, (sorted(scopes), key.company_id, key.id))

    async def revoke_key(self, key: ApiKey, write: Write, *, at: datetime) -> None:
        async with self._outbox.transaction(MessageContext(key.company_id, write.correlation_id)) as transaction:
            cursor = await transaction.connection.execute(_REVOKE, (at, key.company_id, key.id))
            if cursor.rowcount:
                transaction.emit(ApiKeyRevoked(key_id=key.id), subject=key.id, owner_id=key.user_id)


class _Superseded(Exception):
    """Rolls a transaction back after another request has rotated or revoked the key."""


async def _check_quota(transaction: Transaction, company_id: str, most: int | None) -> None:
    """Raises ``QuotaExceeded`` if the company already has ``most`` valid keys."""
    if most is None:
        return
    await transaction.connection.execute(_LOCK_COMPANY, (company_id,))
    count = await fetch_value(transaction.connection, _COUNT_VALID, (company_id,))
    if count >= most:
        raise quota_exceeded(API_KEYS, most, count)


async def _insert(transaction: Transaction, key: ApiKey, digest: bytes, *, replaces: str | None = None) -> None:
    values = (key.id, key.company_id, key.user_id, key.name, key.prefix, digest, sorted(key.scopes), key.rate_limit)
    await transaction.connection.execute(_INSERT, (*values, key.created_at, key.expires_at))
    created = ApiKeyCreated(key_id=key.id, prefix=key.prefix, user_id=key.user_id, replaces=replaces)
    transaction.emit(created, subject=key.id, owner_id=key.user_id)


def _key(row: dict[str, Any]) -> ApiKey:
    return ApiKey(**{**row, "scopes": frozenset(row["scopes"])})
