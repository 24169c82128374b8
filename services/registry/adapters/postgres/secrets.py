"""Stores encrypted secrets in PostgreSQL. This service can't decrypt them."""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from libs.contracts.pages import Page
from libs.eventing import Transaction
from libs.persistence import Database, Order, fetch_page, fetch_records
from services.registry.adapters.postgres.versioned import lock_company, require_room
from services.registry.domain.secret import MOST_SECRETS, SecretNotFound, StoredSecret

_COLUMNS: Final = "id, name, created_at, updated_at"
_LIVE: Final = "FROM secrets WHERE company_id = %(company)s AND deleted_at IS NULL"
_BY_NAME: Final = Order(("name",), ("text",), descending=False)
_REPLACE: Final = f"""
    UPDATE secrets SET ciphertext = %s, updated_at = %s
    WHERE company_id = %s AND name = %s AND deleted_at IS NULL RETURNING {_COLUMNS}
"""
_ADD: Final = f"""
    INSERT INTO secrets (id, company_id, name, ciphertext, created_at, updated_at)
    VALUES (%s, %s, %s, %s, %s, %s) RETURNING {_COLUMNS}
"""
_DELETE: Final = f"""
    UPDATE secrets SET deleted_at = %s, ciphertext = ''
    WHERE company_id = %s AND name = %s AND deleted_at IS NULL RETURNING {_COLUMNS}
"""


class PostgresSecretReader:
    """Reads secrets that aren't deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, name: str) -> StoredSecret:
        """Returns a secret. Raises ``SecretNotFound``."""
        given = {"company": company_id, "name": name}
        rows = await self._database.records(f"SELECT {_COLUMNS} {_LIVE} AND name = %(name)s", given)
        return _only(rows)

    async def page(self, company_id: str, *, limit: int, offset: int, cursor: str | None = None) -> Page[StoredSecret]:
        """Returns a page of secrets, sorted by name."""
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _COLUMNS, _LIVE, _BY_NAME, {"company": company_id},
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return page.map(lambda row: StoredSecret(**row))

    async def names(self, company_id: str) -> frozenset[str]:
        rows = await self._database.execute(f"SELECT name {_LIVE}", {"company": company_id})
        return frozenset(name for (name,) in rows)

    async def ciphertexts(self, company_id: str, names: Sequence[str]) -> Mapping[str, str]:
        """Returns Base64 ciphertexts by name. Secrets that don't exist are omitted."""
        if not names:
            return {}
        rows = await self._database.execute(
            f"SELECT name, ciphertext {_LIVE} AND name = ANY(%(names)s)",
            {"company": company_id, "names": list(names)},
        )
        return {name: base64.b64encode(ciphertext).decode() for name, ciphertext in rows}


class PostgresSecretWriter:
    """Changes secrets in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def put(self, secret_id: str, company_id: str, name: str, ciphertext: bytes, now: datetime) -> StoredSecret:
        """Stores a new secret, or replaces the value of the secret with this name.

        Raises ``Conflict`` if the company already has the maximum number of secrets.
        """
        await lock_company(self._connection, "secrets", company_id)
        replaced = await fetch_records(self._connection, _REPLACE, (ciphertext, now, company_id, name))
        if replaced:
            return StoredSecret(**replaced[0])
        (row,) = await fetch_records(self._connection, _ADD, (secret_id, company_id, name, ciphertext, now, now))
        await require_room(self._connection, "secrets", company_id, MOST_SECRETS)
        return StoredSecret(**row)

    async def delete(self, company_id: str, name: str, now: datetime) -> StoredSecret:
        """Deletes a secret. Raises ``SecretNotFound``."""
        return _only(await fetch_records(self._connection, _DELETE, (now, company_id, name)))


def _only(rows: Sequence[dict[str, Any]]) -> StoredSecret:
    if not rows:
        raise SecretNotFound()
    return StoredSecret(**rows[0])
