"""Tells Prometheus how much there is left to do."""

import asyncio
from typing import Final

import structlog

from libs.persistence import Database, is_outage
from services.ingestion.adapters.metrics import WAITING

_log = structlog.get_logger(__name__)
_SECONDS: Final = 10.0
# Without any worker an ingestion has no items yet. Texts are left out: unless they are parsed ahead, they wait long.
COUNT: Final = """
    SELECT (SELECT count(*) FROM ingestion_items WHERE state IN ('pending', 'running', 'removing'))
    + (SELECT count(*) FROM ingestion_runs WHERE state IN ('planning', 'running', 'finishing'))
    + (SELECT count(*) FROM artifact_documents WHERE state = 'pending' OR (state = 'deleted' AND index_id IS NOT NULL))
"""


async def keep_counting(database: Database) -> None:
    """Until cancelled."""
    while True:
        try:
            async with database.connection() as connection:
                row = await (await connection.execute(COUNT)).fetchone()
                WAITING.set(row[0] if row else 0)
        except Exception as problem:
            if not is_outage(problem):
                raise
            _log.debug("backlog.not_counted", problem=str(problem).strip())
        await asyncio.sleep(_SECONDS)
