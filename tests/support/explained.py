"""Rows and blocks that a statement reads, by its own plan: statistics views count others, too, and count late."""

import itertools
import re
import zlib
from typing import Any

from psycopg import AsyncClientCursor

from libs.persistence import Database


class ExplainedDatabase:
    """Takes the place of a database for an adapter, and explains each statement that it executes for one value.

    Statements are prepared, so that plans are kept as in a process that has run for long. ``tables``: how the names of
    those begin that are looked at.
    """

    def __init__(self, database: Database, *, tables: str) -> None:
        self._database = database
        self._tables = tables
        self.rows_read: list[int] = []
        """Rows of those tables that each statement has read."""

    async def value(self, statement: str, parameters: tuple[Any, ...]) -> int:
        """Returns how many rows an INSERT within the statement has stored."""
        async with self._database.connection() as connection:
            cursor = AsyncClientCursor(connection)
            name = f"explained_{zlib.crc32(statement.encode())}"
            known = await connection.execute("SELECT 1 FROM pg_prepared_statements WHERE name = %s", (name,))
            if await known.fetchone() is None:
                numbers = itertools.count(1)
                numbered = re.sub("%s", lambda _: f"${next(numbers)}", statement)
                await connection.execute(f"PREPARE {name} AS {numbered}".encode(), prepare=False)
            execute = cursor.mogrify(f"EXECUTE {name}({', '.join(['%s'] * len(parameters))})", parameters)
            await cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}")
            row = await cursor.fetchone()
        assert row is not None
        nodes = list(_nodes(row[0][0]["Plan"]))
        self.rows_read.append(sum(_read(node) for node in nodes if self._is_wanted(node)))
        return sum(node["Actual Rows"] for node in nodes if node.get("Subplan Name") == "CTE stored")

    def _is_wanted(self, node: dict[str, Any]) -> bool:
        return node["Node Type"] != "ModifyTable" and node.get("Relation Name", "").startswith(self._tables)


def _nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _read(node: dict[str, Any]) -> int:
    removed = sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])
