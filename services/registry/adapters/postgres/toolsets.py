"""Toolsets and their versions in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Json

from libs.contracts.api.pages import Page
from libs.contracts.api.toolsets import ConnectedTool
from libs.contracts.errors import Conflict, ErrorDetail
from libs.contracts.identifiers import new_id
from libs.eventing import Transaction
from libs.persistence import Database, Order, fetch_page, fetch_records, fetch_value
from services.registry.adapters.postgres.company_locks import lock_company
from services.registry.domain.toolset import StoredToolset

_HEAD: Final = "t.id, t.company_id, t.name, t.type, v.version, t.created_at, t.updated_at, t.refreshed_at, t.warnings"
_CURRENT: Final = f"""
    SELECT {_HEAD}, v.config, v.tools
    FROM toolsets t JOIN toolset_versions v ON v.toolset_id = t.id AND v.version = t.version
    WHERE t.company_id = %(company)s AND t.deleted_at IS NULL
"""
# Documents of 2 MB have no place in a list or a call.
_WITHOUT_DOCUMENT: Final = "(v.config::jsonb - 'document')::json AS config"
_VERSIONS: Final = f"""
    SELECT {_HEAD}, {_WITHOUT_DOCUMENT}, v.tools
    FROM unnest(%(names)s::text[], %(versions)s::int[]) AS wanted (name, version)
    JOIN toolsets t ON t.company_id = %(company)s AND t.name = wanted.name AND t.deleted_at IS NULL
    JOIN toolset_versions v ON v.toolset_id = t.id AND v.version = coalesce(wanted.version, t.version)
"""
_BY_NAME: Final = Order(("t.name",), ("text",), descending=False)
_LIVE: Final = """
    FROM toolsets t JOIN toolset_versions v ON v.toolset_id = t.id AND v.version = t.version
    WHERE t.company_id = %(company)s AND t.deleted_at IS NULL
"""


class PostgresToolsetReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, name: str) -> StoredToolset | None:
        if "\x00" in name:  # PostgreSQL refuses the character, so nothing stored has it
            return None
        rows = await self._database.records(f"{_CURRENT} AND t.name = %(name)s", {"company": company_id, "name": name})
        return _toolset_of(rows[0]) if rows else None

    async def versions(self, company_id: str, wanted: Sequence[tuple[str, int | None]]) -> list[StoredToolset]:
        named = [(name, version) for name, version in wanted if "\x00" not in name]
        if not named:
            return []
        names, versions = zip(*named, strict=True)
        rows = await self._database.records(
            _VERSIONS, {"company": company_id, "names": list(names), "versions": list(versions)}
        )
        return [_toolset_of(row) for row in rows]

    async def page(self, company_id: str, *, limit: int, offset: int, cursor: str | None = None) -> Page[StoredToolset]:
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, f"{_HEAD}, {_WITHOUT_DOCUMENT}, v.tools", _LIVE, _BY_NAME, {"company": company_id},
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return page.map(_toolset_of)

    async def tool_names(self, company_id: str) -> Mapping[str, Sequence[str]]:
        rows = await self._database.execute(f"SELECT t.name, v.tool_names {_LIVE}", {"company": company_id})
        return {name: tuple(tools) for name, tools in rows}

    async def count_tools(self, company_id: str) -> int:
        query = f"SELECT coalesce(sum(cardinality(v.tool_names)), 0) {_LIVE}"
        return int(await self._database.value(query, {"company": company_id}))

    async def tools(self, company_id: str, *, limit: int, offset: int) -> list[tuple[str, ConnectedTool]]:
        rows = await self._database.execute(
            f"""SELECT live.name, tool.value FROM (SELECT t.name, v.tools {_LIVE}) AS live
                CROSS JOIN LATERAL json_array_elements(live.tools) WITH ORDINALITY AS tool (value, position)
                ORDER BY live.name, tool.position LIMIT %(limit)s OFFSET %(offset)s""",
            {"company": company_id, "limit": limit, "offset": offset},
        )
        return [(name, ConnectedTool.model_validate(tool)) for name, tool in rows]


class PostgresToolsetWriter:
    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def add(self, toolset: StoredToolset, created_by: str, *, most: int) -> None:
        await lock_company(self._connection, "toolsets", toolset.company_id)
        query = "SELECT count(*) FROM toolsets WHERE company_id = %s AND deleted_at IS NULL"
        inserted = await self._connection.execute(
            """INSERT INTO toolsets
                   (id, company_id, name, type, version, created_at, updated_at, refreshed_at, warnings)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            (
                toolset.id, toolset.company_id, toolset.name, toolset.type, toolset.version,
                toolset.created_at, toolset.updated_at, toolset.refreshed_at, _warnings_json(toolset),
            ),
        )  # fmt: skip
        if inserted.rowcount == 0:
            raise Conflict(f"There is a toolset named {toolset.name!r} already")
        if await fetch_value(self._connection, query, (toolset.company_id,)) > most:
            raise Conflict(f"Your company has {most} toolsets, which is as many as it may have")
        await self._add_version(toolset, created_by)

    async def lock(self, company_id: str, name: str) -> StoredToolset | None:
        if "\x00" in name:
            return None
        # Two statements: a join that waited for the lock would miss a version added meanwhile.
        await self._connection.execute(
            "SELECT 1 FROM toolsets WHERE company_id = %s AND name = %s AND deleted_at IS NULL FOR UPDATE",
            (company_id, name),
        )
        given = {"company": company_id, "name": name}
        rows = await fetch_records(self._connection, f"{_CURRENT} AND t.name = %(name)s", given)
        return _toolset_of(rows[0]) if rows else None

    async def save(self, before: StoredToolset, after: StoredToolset, changed_by: str) -> None:
        if after.version != before.version:
            await self._connection.execute(
                "UPDATE toolset_versions SET superseded_at = %s WHERE toolset_id = %s AND version = %s",
                (after.updated_at, before.id, before.version),
            )
            await self._add_version(after, changed_by)
        await self._connection.execute(
            "UPDATE toolsets SET version = %s, updated_at = %s, refreshed_at = %s, warnings = %s WHERE id = %s",
            (after.version, after.updated_at, after.refreshed_at, _warnings_json(after), after.id),
        )

    async def delete(self, toolset: StoredToolset, now: datetime) -> None:
        await self._connection.execute("DELETE FROM toolset_versions WHERE toolset_id = %s", (toolset.id,))
        await self._connection.execute("UPDATE toolsets SET deleted_at = %s WHERE id = %s", (now, toolset.id))

    async def _add_version(self, toolset: StoredToolset, created_by: str) -> None:
        await self._connection.execute(
            """INSERT INTO toolset_versions
                   (id, toolset_id, version, config, tools, tool_names, created_by, created_at)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
            (
                new_id(), toolset.id, toolset.version, Json(dict(toolset.config)),
                Json([tool.model_dump(exclude_none=True) for tool in toolset.tools]),
                [tool.name for tool in toolset.tools], created_by, toolset.updated_at,
            ),
        )  # fmt: skip


def _warnings_json(toolset: StoredToolset) -> Json:
    return Json([warning.model_dump() for warning in toolset.warnings])


def _toolset_of(row: dict[str, Any]) -> StoredToolset:
    tools = tuple(ConnectedTool.model_validate(tool) for tool in row["tools"])
    warnings = tuple(ErrorDetail.model_validate(warning) for warning in row["warnings"])
    return StoredToolset(**{**row, "tools": tools, "warnings": warnings})
