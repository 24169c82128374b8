"""The `table_query` tool, which runs read-only SQL on the tables of one file."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from libs.confined import JobRefused, OutOfMemory, ProcessKilled, run_confined
from libs.contracts.resources.artifacts import Artifact
from libs.fairness import FairSemaphore, QueueFull
from services.runtime.adapters.tools.artifacts.artifact_reading import ARTIFACT, artifact_lookup
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tables import counted, query_names, rendered
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema

_WORKER: Final = "services.runtime.adapters.tools.artifacts.table_worker"
_LONGEST_CELL: Final = 500
_MOST_SHEETS: Final = 200
_AT_ONCE: Final = 2
_WAITING: Final = 8
_GONE: Final = "The query used too much memory or time. Select fewer rows or columns, or aggregate."


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The limits of a query. ``seconds`` covers loading and querying, and ``rows`` limits the result."""

    seconds: int = 20
    memory_bytes: int = 1_500_000_000
    rows: int = 200


class TableQuery:
    definition = ToolDefinition(
        name="table_query",
        description=(
            "Runs a single SQL SELECT (DuckDB dialect) on a spreadsheet or CSV file in this session. Each sheet is a"
            " table; the file's description lists the table names. Use SHOW TABLES and DESCRIBE name for details. Quote"
            ' columns as "Column name".'
        ),
        parameters=object_schema(
            ["artifact", "sql"],
            artifact=ARTIFACT,
            sql={"type": "string", "minLength": 1, "maxLength": 10_000},
        ),
        safe_to_repeat=True,
        timeout_seconds=90.0,
    )

    def __init__(self, artifacts: SessionArtifacts, limits: QueryLimits | None = None) -> None:
        self._artifacts = artifacts
        self._limits = limits or QueryLimits()
        self._queries = FairSemaphore(_AT_ONCE, waiting=_WAITING)

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        async with artifact_lookup(self._artifacts, context) as find:
            facts = await find(arguments["artifact"])
            if facts.processing_strategy != "structural_parsing":
                raise ToolFailed(
                    f"{facts.name} isn't a table; only spreadsheets, CSV files and JSON arrays can be queried"
                )
            try:
                async with self._queries.acquire(context.caller.company_id):
                    return ToolOutput(_answer(await self._query(facts, arguments["sql"], context)))
            except QueueFull as full:
                waiting = f"your company already has {full.waiting} waiting queries"
                raise ToolFailed(f"{waiting}; try again in a moment") from full

    async def _query(self, facts: Artifact, sql: str, context: ToolContext) -> JsonObject:
        where = (context.session_id, facts.artifact_id, context.caller)
        tables = (await self._artifacts.tables(*where, rows=1))[:_MOST_SHEETS]
        names = query_names(table.name for table in tables)
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="aes-table-"))
        try:
            # Only use the extension, since the rest of the name is untrusted.
            file = folder / f"file{Path(facts.name).suffix.lower()}"
            await self._artifacts.save(*where, file)
            job = {
                "file": file.name,
                "tables": [
                    {"sheet": table.name, "name": name, "headers": table.headers, "types": table.types}
                    for table, name in zip(tables, names, strict=True)
                    if table.headers
                ],
                "sql": sql,
                "rows": self._limits.rows,
                "memory_bytes": self._limits.memory_bytes,
            }
            return await self._run(file, job)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _run(self, file: Path, job: JsonObject) -> JsonObject:
        seconds, memory_bytes = self._limits.seconds, self._limits.memory_bytes
        try:
            files = {file.name: file}
            return await run_confined(_WORKER, job, seconds=seconds, memory_bytes=memory_bytes, files=files)
        except (OutOfMemory, TimeoutError):
            raise ToolFailed(_GONE) from None
        except JobRefused as problem:
            raise ToolFailed(str(problem)) from None
        except ProcessKilled as killed:
            # A process that exceeds a limit is killed. An unexpected error in the worker ends it with status 1.
            raise ToolFailed(_GONE if killed.status < 0 else "the file couldn't be read as a table") from None


def _answer(outcome: JsonObject) -> str:
    rows: list[list[Any]] = outcome["rows"]
    table = rendered([outcome["columns"], *rows], longest=_LONGEST_CELL)
    count = f"the first {counted(len(rows))} of the result" if outcome["more"] else counted(len(rows))
    return f"{table}\n({count})"
