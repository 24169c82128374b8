"""Stores agents and their versions in PostgreSQL."""

from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Json

from libs.contracts.errors import Conflict
from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from libs.eventing import Transaction
from libs.persistence import Database, Order, fetch_page, fetch_records, fetch_value
from services.registry.adapters.postgres.versioned import Versioned
from services.registry.domain.agent import StoredAgent, StoredVersion

_AGENT_COLUMNS: Final = """
    a.id, a.agent_key, a.company_id, a.owner_id, a.is_public, a.is_shared, a.origin_url, a.allowed_origins,
    a.entry_point, a.version_number, a.created_at, a.updated_at, v.config_hash, v.system_config
"""
_LIVE_AGENTS: Final = f"""
    SELECT {_AGENT_COLUMNS}
    FROM agents a
    JOIN agent_versions v ON v.agent_id = a.id AND v.version_number = a.version_number
    WHERE a.deleted_at IS NULL
"""
_NEWEST_FIRST: Final = Order(("position",), ("bigint",))
_VERSION_COLUMNS: Final = "version_number, config_hash, system_config, created_by, created_at"


class PostgresAgentReader:
    """Reads agents that aren't deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, agent_id: str) -> StoredAgent | None:
        return await self._one(f"{_LIVE_AGENTS} AND a.id = %s", agent_id)

    async def get_by_key(self, agent_key: str) -> StoredAgent | None:
        return await self._one(f"{_LIVE_AGENTS} AND a.agent_key = %s", agent_key)

    async def visible_to(self, caller: Identity, *, limit: int | None, offset: int) -> list[StoredAgent]:
        rows = await self._database.records(
            f"""{_LIVE_AGENTS} AND a.company_id = %(company)s
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
        return [_agent_of(row) for row in rows]

    async def versions(
        self, agent_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredVersion]:
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _VERSION_COLUMNS, "FROM agent_versions WHERE agent_id = %(agent)s", _NEWEST_FIRST,
                {"agent": agent_id}, limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return page.map(_version_of)

    async def version(self, agent_id: str, version_number: str) -> StoredVersion | None:
        rows = await self._database.records(
            f"SELECT {_VERSION_COLUMNS} FROM agent_versions WHERE agent_id = %s AND version_number = %s",
            (agent_id, version_number),
        )
        return _version_of(rows[0]) if rows else None

    async def _one(self, query: str, value: str) -> StoredAgent | None:
        rows = await self._database.records(query, (value,))
        return _agent_of(rows[0]) if rows else None


class PostgresAgentWriter:
    """Changes agents in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection
        self._agents = Versioned(self._connection, "agents", "agent_versions", "agent_id", "version_number")

    async def add(self, agent: StoredAgent) -> bool:
        """Stores a new agent. Returns False if its key is taken. Raises ``Conflict`` if its ID is taken."""
        origin = {each: getattr(agent, each) for each in ("id", "agent_key", "company_id", "owner_id", "created_at")}
        if await self._agents.add({**origin, **_head_of(agent)}, _version_row(agent, agent.owner_id)):
            return True
        if await fetch_value(self._connection, "SELECT 1 FROM agents WHERE id = %s", (agent.id,)):
            raise Conflict("An agent with this ID already exists.")
        return False

    async def lock(self, agent_id: str) -> StoredAgent | None:
        """Locks the agent until the end of the transaction. Returns None if the agent doesn't exist."""
        await self._agents.lock("id = %(id)s", {"id": agent_id})
        rows = await fetch_records(self._connection, f"{_LIVE_AGENTS} AND a.id = %s", (agent_id,))
        return _agent_of(rows[0]) if rows else None

    async def save(self, before: StoredAgent, after: StoredAgent, changed_by: str) -> None:
        """Stores the new state of a locked agent, and a new version if the version number has changed."""
        version = _version_row(after, changed_by)
        await self._agents.save(after.id, _head_of(after), version, before=before.version_number)

    async def delete(self, agent: StoredAgent, now: datetime) -> None:
        """Deletes a locked agent and its versions. The agent's key stays reserved, since web pages may contain it."""
        no_origins: list[str] = []
        gone = {"deleted_at": now, "origin_url": None, "allowed_origins": no_origins, "entry_point": ""}
        await self._agents.delete(agent.id, gone)


def _head_of(agent: StoredAgent) -> dict[str, Any]:
    """Returns the columns of ``agents`` that can change, except the version number."""
    names = ("is_public", "is_shared", "origin_url", "entry_point", "updated_at")
    return {**{name: getattr(agent, name) for name in names}, "allowed_origins": list(agent.allowed_origins)}


def _version_row(agent: StoredAgent, created_by: str) -> dict[str, Any]:
    return {
        "version_number": agent.version_number,
        "config_hash": agent.config_hash,
        "system_config": Json(dict(agent.system_config)),
        "created_by": created_by,
        "created_at": agent.updated_at,
    }


def _agent_of(row: dict[str, Any]) -> StoredAgent:
    return StoredAgent(**{**row, "allowed_origins": tuple(row["allowed_origins"])})


def _version_of(row: dict[str, Any]) -> StoredVersion:
    return StoredVersion(**row)
