"""The tables that contain users' encrypted secrets."""

from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from libs.secrets._cipher import SecretCipher, SecretUnreadable

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class Rotation:
    """The result of a rotation. ``unreadable`` contains the context and error of each secret that no key decrypts."""

    changed: int
    unreadable: tuple[tuple[str, SecretUnreadable], ...]


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
        """Re-encrypts every secret that isn't encrypted with the newest key. Several runs can overlap."""
        changed, unreadable, after = 0, [], ""
        while batch := await self._not_under(connection, cipher.current_id, after):
            for after, context, ciphertext in batch:
                try:
                    text = cipher.decrypt(ciphertext, context=context)
                except SecretUnreadable as problem:
                    unreadable.append((context, problem))
                    continue
                # Another process may have replaced the secret since it was read.
                await connection.execute(
                    f"UPDATE {self.table} SET ciphertext = %s WHERE id = %s AND ciphertext = %s",
                    (cipher.encrypt(text, context=context), after, ciphertext),
                )
                changed += 1
        return Rotation(changed, tuple(unreadable))

    async def _not_under(self, connection: Connection, key_id: bytes, after: str) -> list[tuple[str, str, bytes]]:
        cursor = await connection.execute(
            f"""SELECT id::text, {self.context}, ciphertext FROM {self.table}
                WHERE substring(ciphertext FROM 2 FOR 8) <> %s AND id::text > %s AND {self.condition}
                ORDER BY id::text LIMIT %s""",
            (key_id, after, _BATCH),
        )
        return await cursor.fetchall()


WEBHOOK_SECRETS: Final = SecretTable(
    "timeline",
    "secrets of webhooks",
    "webhook_secrets",
    "'webhook_secrets/' || webhook_id || '/' || id",
    condition="(expires_at IS NULL OR expires_at > now())",
)
SECRET_TABLES: Final = (
    WEBHOOK_SECRETS,
    SecretTable(
        "registry",
        "secrets of toolsets",
        "secrets",
        "'secrets/' || company_id || '/' || name",
        condition="deleted_at IS NULL",
    ),
)
