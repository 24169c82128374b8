"""Reads of agents from PostgreSQL."""

from typing import Any

from psycopg.rows import dict_row

from libs.contracts.identity import Identity
from libs.persistence import Database
from services.registry.adapters.agent_rows import LIVE_AGENTS, VERSION_COLUMNS, agent_of, version_of
from services.registry.domain.agent import StoredAgent, StoredVersion


class PostgresAgentReader:
    """Every read is one statement, so it sees one state."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, agent_id: str) -> StoredAgent | None:
        return await self._one(f"{LIVE_AGENTS} AND a.id = %s", agent_id)

    async def get_by_key(self, agent_key: str) -> StoredAgent | None:
        return await self._one(f"{LIVE_AGENTS} AND a.agent_key = %s", agent_key)

    async def visible_to(self, caller: Identity, *, limit: int | None, offset: int) -> list[StoredAgent]:
        rows = await self._rows(
            f"""{LIVE_AGENTS} AND a.company_id = %(company)s
                AND (%(all)s OR a.is_public OR a.is_shared OR a.owner_id = %(user)s)
                ORDER BY a.created_at DESC, a.id DESC LIMIT %(limit)s OFFSET %(offset)s""",
            {
                "company": caller.company_id,
                "all": caller.reads_company,
                "user": caller.user_id,
                "limit": limit,
                "offset": offset,
            },
        )
        return [agent_of(row) for row in rows]

    async def versions(self, agent_id: str, *, limit: int, offset: int) -> list[StoredVersion]:
        rows = await self._rows(
            f"""SELECT {VERSION_COLUMNS} FROM agent_versions WHERE agent_id = %s
                ORDER BY position DESC LIMIT %s OFFSET %s""",
            (agent_id, limit, offset),
        )
        return [version_of(row) for row in rows]

    async def count_versions(self, agent_id: str) -> int:
        rows = await self._rows("SELECT count(*) AS total FROM agent_versions WHERE agent_id = %s", (agent_id,))
        return int(rows[0]["total"])

    async def version(self, agent_id: str, version_number: str) -> StoredVersion | None:
        if "\x00" in version_number:
            return None
        rows = await self._rows(
            f"SELECT {VERSION_COLUMNS} FROM agent_versions WHERE agent_id = %s AND version_number = %s",
            (agent_id, version_number),
        )
        return version_of(rows[0]) if rows else None

    async def _one(self, query: str, value: str) -> StoredAgent | None:
        if "\x00" in value:  # PostgreSQL refuses the character, so nothing stored has it
            return None
        rows = await self._rows(query, (value,))
        return agent_of(rows[0]) if rows else None

    async def _rows(self, query: str, parameters: Any) -> list[dict[str, Any]]:
        async with (
            self._database.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            await cursor.execute(query, parameters)
            return await cursor.fetchall()
