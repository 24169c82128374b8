"""Changes of agents in PostgreSQL, inside a transaction of the caller's."""

from psycopg.rows import dict_row
from psycopg.types.json import Json

from libs.contracts.errors import Conflict
from libs.persistence import Connection
from services.registry.adapters.agent_rows import LIVE_AGENTS, agent_of
from services.registry.domain.agent import StoredAgent


class PostgresAgentWriter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, agent: StoredAgent) -> bool:
        inserted = await self._connection.execute(
            """INSERT INTO agents (id, agent_key, company_id, owner_id, is_public, is_shared, origin_url,
                   allowed_origins, entry_point, version_number, created_at, updated_at)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
               ON CONFLICT DO NOTHING""",
            (
                agent.id, agent.agent_key, agent.company_id, agent.owner_id, agent.is_public, agent.is_shared,
                agent.origin_url, list(agent.allowed_origins), agent.entry_point, agent.version_number,
                agent.created_at, agent.updated_at,
            ),
        )  # fmt: skip
        if inserted.rowcount == 0:
            same_id = await self._connection.execute("SELECT 1 FROM agents WHERE id = %s", (agent.id,))
            if await same_id.fetchone():
                raise Conflict("there is already an agent with this id")
            return False
        await self._add_version(agent, agent.owner_id)
        return True

    async def lock(self, agent_id: str) -> StoredAgent | None:
        if "\x00" in agent_id:
            return None
        # Two statements: a join that waited for the lock would miss a version added meanwhile.
        await self._connection.execute("SELECT 1 FROM agents WHERE id = %s FOR UPDATE", (agent_id,))
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(f"{LIVE_AGENTS} AND a.id = %s", (agent_id,))
            row = await cursor.fetchone()
        return agent_of(row) if row else None

    async def save(self, before: StoredAgent, after: StoredAgent, changed_by: str) -> None:
        if after.version_number != before.version_number:
            await self._add_version(after, changed_by)
        await self._connection.execute(
            """UPDATE agents SET is_public = %s, is_shared = %s, origin_url = %s, allowed_origins = %s,
                   entry_point = %s, version_number = %s, updated_at = %s
               WHERE id = %s""",
            (
                after.is_public, after.is_shared, after.origin_url, list(after.allowed_origins),
                after.entry_point, after.version_number, after.updated_at, after.id,
            ),
        )  # fmt: skip

    async def delete(self, agent: StoredAgent) -> None:
        await self._connection.execute("DELETE FROM agent_versions WHERE agent_id = %s", (agent.id,))
        await self._connection.execute(
            """UPDATE agents
               SET deleted_at = now(), origin_url = NULL, allowed_origins = '{}', entry_point = ''
               WHERE id = %s""",
            (agent.id,),
        )

    async def _add_version(self, agent: StoredAgent, created_by: str) -> None:
        await self._connection.execute(
            """INSERT INTO agent_versions
                   (agent_id, version_number, config_hash, system_config, created_by, created_at)
               VALUES (%s, %s, %s, %s, %s, %s)""",
            (
                agent.id, agent.version_number, agent.config_hash, Json(dict(agent.system_config)),
                created_by, agent.updated_at,
            ),
        )  # fmt: skip
