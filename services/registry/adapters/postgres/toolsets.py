"""Stores toolsets and their versions in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Json

from libs.contracts.errors import Conflict, ErrorDetail
from libs.contracts.identifiers import new_id
from libs.contracts.pages import Page
from libs.contracts.resources.toolsets import ConnectedTool
from libs.eventing import Transaction
from libs.persistence import Database, Order, fetch_page, fetch_records
from services.registry.adapters.postgres.versioned import Versioned, lock_company, require_room
from services.registry.domain.toolset import MOST_TOOLSETS, StoredToolset

_HEAD: Final = "t.id, t.company_id, t.name, t.type, v.version, t.created_at, t.updated_at, t.refreshed_at, t.warnings"
_LIVE: Final = """
    FROM toolsets t JOIN toolset_versions v ON v.toolset_id = t.id AND v.version = t.version
    WHERE t.company_id = %(company)s AND t.deleted_at IS NULL
"""
_CURRENT: Final = f"SELECT {_HEAD}, v.config, v.tools {_LIVE}"
# Lists and calls don't need documents, which can have up to 2 MB.
_WITHOUT_DOCUMENT: Final = "(v.config::jsonb - 'document')::json AS config"
_VERSIONS: Final = f"""
    SELECT {_HEAD}, {_WITHOUT_DOCUMENT}, v.tools
    FROM unnest(%(names)s::text[], %(versions)s::int[]) AS wanted (name, version)
    JOIN toolsets t ON t.company_id = %(company)s AND t.name = wanted.name AND t.deleted_at IS NULL
    JOIN toolset_versions v ON v.toolset_id = t.id AND v.version = coalesce(wanted.version, t.version)
"""
_BY_NAME: Final = Order(("t.name",), ("text",), descending=False)


class PostgresToolsetReader:
    """Reads toolsets that aren't deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, name: str) -> StoredToolset | None:
        rows = await self._database.records(f"{_CURRENT} AND t.name = %(name)s", {"company": company_id, "name": name})
        return _toolset_of(rows[0]) if rows else None

    async def versions(self, company_id: str, wanted: Sequence[tuple[str, int | None]]) -> list[StoredToolset]:
        """Returns the wanted toolsets that exist. A version of None stands for the current version."""
        names, versions = [name for name, _ in wanted], [version for _, version in wanted]
        rows = await self._database.records(_VERSIONS, {"company": company_id, "names": names, "versions": versions})
        return [_toolset_of(row) for row in rows]

    async def page(self, company_id: str, *, limit: int, offset: int, cursor: str | None = None) -> Page[StoredToolset]:
        """Returns a page of toolsets without their documents, sorted by name."""
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, f"{_HEAD}, {_WITHOUT_DOCUMENT}, v.tools", _LIVE, _BY_NAME, {"company": company_id},
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return page.map(_toolset_of)

    async def tool_names(self, company_id: str) -> Mapping[str, Sequence[str]]:
        """Returns the tool names of each toolset, by toolset name."""
        rows = await self._database.execute(f"SELECT t.name, v.tool_names {_LIVE}", {"company": company_id})
        return {name: tuple(tools) for name, tools in rows}

    async def count_tools(self, company_id: str) -> int:
        query = f"SELECT coalesce(sum(cardinality(v.tool_names)), 0) {_LIVE}"
        return int(await self._database.value(query, {"company": company_id}))

    async def tools(self, company_id: str, *, limit: int, offset: int) -> list[tuple[str, ConnectedTool]]:
        """Returns pairs of a toolset's name and a tool, sorted by toolset name."""
        rows = await self._database.execute(
            f"""SELECT live.name, tool.value FROM (SELECT t.name, v.tools {_LIVE}) AS live
                CROSS JOIN LATERAL json_array_elements(live.tools) WITH ORDINALITY AS tool (value, position)
                ORDER BY live.name, tool.position LIMIT %(limit)s OFFSET %(offset)s""",
            {"company": company_id, "limit": limit, "offset": offset},
        )
        return [(name, ConnectedTool.model_validate(tool)) for name, tool in rows]


class PostgresToolsetWriter:
    """Changes toolsets in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection
        self._toolsets = Versioned(self._connection, "toolsets", "toolset_versions", "toolset_id", "version")

    async def add(self, toolset: StoredToolset, created_by: str) -> None:
        """Stores a toolset. Raises ``Conflict`` if its name is taken or the company has too many toolsets."""
        await lock_company(self._connection, "toolsets", toolset.company_id)
        origin = {each: getattr(toolset, each) for each in ("id", "company_id", "name", "type", "created_at")}
        if not await self._toolsets.add({**origin, **_head_of(toolset)}, _version_row(toolset, created_by)):
            raise Conflict(f"A toolset named {toolset.name!r} already exists.")
        await require_room(self._connection, "toolsets", toolset.company_id, MOST_TOOLSETS)

    async def lock(self, company_id: str, name: str) -> StoredToolset | None:
        """Locks the toolset until the end of the transaction. Returns None if the toolset doesn't exist."""
        given = {"company": company_id, "name": name}
        await self._toolsets.lock("company_id = %(company)s AND name = %(name)s AND deleted_at IS NULL", given)
        rows = await fetch_records(self._connection, f"{_CURRENT} AND t.name = %(name)s", given)
        return _toolset_of(rows[0]) if rows else None

    async def save(self, before: StoredToolset, after: StoredToolset, changed_by: str) -> None:
        """Stores the new state of a locked toolset, and a new version if the version number has changed."""
        superseded = {"superseded_at": after.updated_at}
        version = _version_row(after, changed_by)
        await self._toolsets.save(after.id, _head_of(after), version, before=before.version, superseded=superseded)

    async def delete(self, toolset: StoredToolset, now: datetime) -> None:
        """Deletes a locked toolset and its versions."""
        await self._toolsets.delete(toolset.id, {"deleted_at": now})


def _head_of(toolset: StoredToolset) -> dict[str, Any]:
    """Returns the columns of ``toolsets`` that can change, except the version number."""
    warnings = Json([warning.model_dump() for warning in toolset.warnings])
    return {"updated_at": toolset.updated_at, "refreshed_at": toolset.refreshed_at, "warnings": warnings}


def _version_row(toolset: StoredToolset, created_by: str) -> dict[str, Any]:
    return {
        "id": new_id(),
        "version": toolset.version,
        "config": Json(dict(toolset.config)),
        "tools": Json([tool.model_dump(exclude_none=True) for tool in toolset.tools]),
        "tool_names": [tool.name for tool in toolset.tools],
        "created_by": created_by,
        "created_at": toolset.updated_at,
    }


def _toolset_of(row: dict[str, Any]) -> StoredToolset:
    tools = tuple(ConnectedTool.model_validate(tool) for tool in row["tools"])
    warnings = tuple(ErrorDetail.model_validate(warning) for warning in row["warnings"])
    return StoredToolset(**{**row, "tools": tools, "warnings": warnings})
