"""Artifacts with tables that wait to be read, in PostgreSQL."""

from collections.abc import Sequence

from libs.contracts.identifiers import new_id
from libs.persistence import Database
from services.artifacts.adapters.postgres.artifacts import COLUMNS, artifact_of
from services.artifacts.domain.ports import TableJob

_CLAIM = f"""
    WITH free AS (
        SELECT id FROM artifacts
        WHERE state = 'stored' AND status = 'pending' AND strategy = 'structural_parsing'
          AND (lease_until IS NULL OR lease_until < now())
        ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    UPDATE artifacts a
    SET lease = %(lease)s || '/' || a.id, lease_until = now() + %(seconds)s * interval '1 second',
        attempts = a.attempts + 1
    FROM free, sessions s WHERE a.id = free.id AND s.id = a.session_id
    RETURNING {COLUMNS}, a.correlation_id, a.lease, a.attempts
"""


class PostgresTableJobs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, limit: int, seconds: float) -> list[TableJob]:
        jobs = []
        for row in await self._database.records(_CLAIM, {"limit": limit, "lease": new_id(), "seconds": seconds}):
            correlation_id, lease, attempt = row.pop("correlation_id"), row.pop("lease"), row.pop("attempts")
            jobs.append(TableJob(artifact_of(row), correlation_id, lease, attempt))
        return jobs

    async def postpone(self, lease: str, seconds: float, *, counts: bool) -> None:
        await self._database.execute(
            """UPDATE artifacts SET lease = NULL, attempts = attempts - %s,
                   lease_until = now() + %s * interval '1 second'
               WHERE lease = %s""",
            (0 if counts else 1, seconds, lease),
        )

    async def renew(self, leases: Sequence[str], seconds: float) -> None:
        await self._database.execute(
            "UPDATE artifacts SET lease_until = now() + %s * interval '1 second' WHERE lease = ANY (%s)",
            (seconds, list(leases)),
        )
