"""Stores versioned entities: a head row with the current version number, and a row for each version."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from libs.contracts.errors import Conflict
from libs.persistence import Connection, fetch_value

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Versioned:
    """Changes versioned entities in a connection's transaction.

    ``heads`` and ``versions`` are the tables. ``reference`` is the column of ``versions`` that contains the ID of the
    head row. ``number`` is the column of the version number in both tables.
    """

    connection: Connection
    heads: str
    versions: str
    reference: str
    number: str

    async def add(self, head: Row, version: Row) -> bool:
        """Stores a new entity. Returns False if its ID or name is taken."""
        added = await self._insert(self.heads, {**head, self.number: version[self.number]})
        if added:
            await self._insert(self.versions, {self.reference: head["id"], **version})
        return added

    async def lock(self, condition: str, given: Row) -> None:
        """Locks the head row of an entity.

        Read the entity after this call: a join in the same statement would miss a version added during the wait.
        """
        await self.connection.execute(f"SELECT 1 FROM {self.heads} WHERE {condition} FOR UPDATE", given)

    async def save(self, thing_id: str, head: Row, version: Row, *, before: Any, superseded: Row | None = None) -> None:
        """Stores the new state of a locked entity, and a new version if the version number differs from ``before``.

        ``superseded`` contains values to set on the previous version.
        """
        number = version[self.number]
        if number != before:
            if superseded:
                await self._update(self.versions, superseded, {self.reference: thing_id, self.number: before})
            await self._insert(self.versions, {self.reference: thing_id, **version})
        await self._update(self.heads, {**head, self.number: number}, {"id": thing_id})

    async def delete(self, thing_id: str, tombstone: Row) -> None:
        """Deletes the versions of an entity. The head row is kept as a tombstone."""
        await self.connection.execute(f"DELETE FROM {self.versions} WHERE {self.reference} = %s", (thing_id,))
        await self._update(self.heads, tombstone, {"id": thing_id})

    async def _insert(self, table: str, row: Row) -> bool:
        names, values = ", ".join(row), ", ".join(f"%({name})s" for name in row)
        # Changes require the lock, so a second version with the same number is an error.
        ignored = "ON CONFLICT DO NOTHING" if table == self.heads else ""
        inserted = await self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({values}) {ignored}", row)
        return inserted.rowcount == 1

    async def _update(self, table: str, row: Row, key: Row) -> None:
        values, condition = (", ".join(f"{name} = %({name})s" for name in part) for part in (row, key))
        condition = condition.replace(", ", " AND ")
        await self.connection.execute(f"UPDATE {table} SET {values} WHERE {condition}", {**row, **key})


async def lock_company(connection: Connection, table: str, company_id: str) -> None:
    """Locks the company until the end of the transaction, so that concurrent requests can't exceed a limit."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{table} of {company_id}",))


async def require_room(connection: Connection, table: str, company_id: str, most: int) -> None:
    """Raises ``Conflict`` if the company has more than ``most`` undeleted rows, including the new one.

    The caller must have called ``lock_company``.
    """
    query = f"SELECT count(*) FROM {table} WHERE company_id = %s AND deleted_at IS NULL"
    if await fetch_value(connection, query, (company_id,)) > most:
        raise Conflict(f"Your company already has {most} {table}, which is the maximum. Delete one first.")
