"""The tables with encrypted secrets of users, in the databases of their services."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from libs.persistence import Connection


@dataclass(frozen=True, slots=True)
class SecretTable:
    """``place``: SQL of the place that a row's ciphertext is bound to. ``what`` names the secrets to people."""

    service: str
    what: str
    table: LiteralString
    place: LiteralString
    condition: LiteralString = "true"


SECRET_TABLES: Final = (
    SecretTable("gateway", "secrets of webhooks", "webhook_secrets", "'webhook_secrets/' || webhook_id || '/' || id"),
    SecretTable(
        "registry",
        "secrets of toolsets",
        "secrets",
        "'secrets/' || company_id || '/' || name",
        condition="deleted_at IS NULL",
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    place: str
    ciphertext: bytes


class PostgresSecretTable:
    """A table as a store whose secrets can be encrypted anew."""

    def __init__(self, connection: Connection, table: SecretTable) -> None:
        self._connection = connection
        self._table = table

    async def secrets_not_under(self, key_id: bytes, *, after: str, limit: int) -> Sequence[Row]:
        # The bytes behind the form are the id of the key: libs/secrets.
        cursor = await self._connection.execute(
            f"""SELECT id::text, {self._table.place}, ciphertext FROM {self._table.table}
                WHERE substring(ciphertext FROM 2 FOR 8) <> %s AND id::text > %s AND {self._table.condition}
                ORDER BY id::text LIMIT %s""",
            (key_id, after, limit),
        )
        return [Row(*row) for row in await cursor.fetchall()]

    async def replace_ciphertext(self, old: Row, ciphertext: bytes) -> None:
        await self._connection.execute(
            f"UPDATE {self._table.table} SET ciphertext = %s WHERE id::text = %s AND ciphertext = %s",
            (ciphertext, old.id, old.ciphertext),
        )
