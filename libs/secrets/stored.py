"""The tables that contain users' encrypted secrets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from libs.secrets._cipher import SecretCipher
from libs.secrets._rotation import Rotation, reencrypt

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SecretTable:
    """A table that contains encrypted secrets.

    ``context`` is SQL for the context that a row's ciphertext is bound to. ``what`` is a readable name for the secrets.
    """

    service: str
    what: str
    table: LiteralString
    context: LiteralString
    condition: LiteralString = "true"

    async def count_by_key(self, connection: Connection) -> dict[bytes, int]:
        """Returns the number of secrets by key ID."""
        # The key's ID follows the format byte.
        cursor = await connection.execute(
            f"""SELECT substring(ciphertext FROM 2 FOR 8), count(*) FROM {self.table}
                WHERE {self.condition} GROUP BY 1"""
        )
        return {bytes(key_id): int(count) for key_id, count in await cursor.fetchall()}

    async def rotate(self, connection: Connection, cipher: SecretCipher) -> Rotation:
        return await reencrypt(_Rows(connection, self), cipher)


SECRET_TABLES: Final = (
    SecretTable("timeline", "secrets of webhooks", "webhook_secrets", "'webhook_secrets/' || webhook_id || '/' || id"),
    SecretTable(
        "registry",
        "secrets of toolsets",
        "secrets",
        "'secrets/' || company_id || '/' || name",
        condition="deleted_at IS NULL",
    ),
)


@dataclass(frozen=True, slots=True)
class _Row:
    id: str
    context: str
    ciphertext: bytes


class _Rows:
    def __init__(self, connection: Connection, table: SecretTable) -> None:
        self._connection = connection
        self._table = table

    async def secrets_not_under(self, key_id: bytes, *, after: str, limit: int) -> Sequence[_Row]:
        cursor = await self._connection.execute(
            f"""SELECT id::text, {self._table.context}, ciphertext FROM {self._table.table}
                WHERE substring(ciphertext FROM 2 FOR 8) <> %s AND id::text > %s AND {self._table.condition}
                ORDER BY id::text LIMIT %s""",
            (key_id, after, limit),
        )
        return [_Row(*row) for row in await cursor.fetchall()]

    async def replace_ciphertext(self, old: _Row, ciphertext: bytes) -> None:
        await self._connection.execute(
            f"UPDATE {self._table.table} SET ciphertext = %s WHERE id::text = %s AND ciphertext = %s",
            (ciphertext, old.id, old.ciphertext),
        )
