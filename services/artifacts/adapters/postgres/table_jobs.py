"""Stores the queue of data files in PostgreSQL."""

from collections.abc import Callable, Collection, Sequence

from libs.contracts.identifiers import new_id
from libs.fairness import Capacity
from libs.persistence import Database
from services.artifacts.adapters.postgres.artifacts import COLUMNS, artifact_of
from services.artifacts.domain.artifacts import TableJob

_PENDING = "blob_id IS NOT NULL AND status = 'pending' AND strategy = 'structural_parsing'"
# Companies take turns: every company's first file comes before any company's second file.
_CLAIM = f"""
    WITH busy AS (
        SELECT * FROM unnest(%(companies)s::text[], %(jobs)s::integer[]) AS b (company_id, jobs)
    ), waiting AS (
        SELECT a.id, a.created_at,
               coalesce(b.jobs, 0) + row_number() OVER (PARTITION BY s.company_id ORDER BY a.created_at) AS turn
        FROM artifacts a JOIN sessions s ON s.id = a.session_id LEFT JOIN busy b USING (company_id)
        WHERE {_PENDING} AND (lease_until IS NULL OR lease_until < now())
    ), free AS (
        SELECT a.id FROM artifacts a JOIN waiting w USING (id)
        WHERE w.turn <= %(each)s AND {_PENDING} AND (a.lease_until IS NULL OR a.lease_until < now())
        ORDER BY w.turn, w.created_at LIMIT %(free)s FOR UPDATE OF a SKIP LOCKED)
    UPDATE artifacts a
    SET lease = %(lease)s || '/' || a.id, lease_until = now() + %(seconds)s * interval '1 second',
        holder = %(holder)s, attempts = a.attempts + 1
    FROM free, sessions s WHERE a.id = free.id AND s.id = a.session_id
    RETURNING {COLUMNS}, a.correlation_id, a.lease, a.attempts
"""


class PostgresTableJobs:
    """The queue of artifacts whose tables must be read.

    ``holder`` returns the number of this process's liveness lock, or None while there's no lock.
    """

    def __init__(self, database: Database, holder: Callable[[], int | None] = lambda: None) -> None:
        self._database = database
        self._holder = holder

    async def claim(self, capacity: Capacity, seconds: float) -> list[TableJob]:
        """Claims waiting artifacts for this many ``seconds``. Companies take turns."""
        jobs = []
        lease = {"lease": new_id(), "seconds": seconds, "holder": self._holder()}
        for row in await self._database.records(_CLAIM, {**capacity.parameters(), **lease}):
            correlation_id, lease, attempt = row.pop("correlation_id"), row.pop("lease"), row.pop("attempts")
            jobs.append(TableJob(artifact_of(row), correlation_id, lease, attempt))
        return jobs

    async def postpone(self, lease: str, seconds: float, *, counts: bool) -> None:
        """Queues the artifact again after ``seconds``. The claim counts as an attempt only if ``counts`` is true."""
        await self._database.execute(
            """UPDATE artifacts SET lease = NULL, holder = NULL, attempts = attempts - %s,
                   lease_until = now() + %s * interval '1 second'
               WHERE lease = %s""",
            (0 if counts else 1, seconds, lease),
        )

    async def renew(self, leases: Sequence[str], seconds: float) -> None:
        await self._database.execute(
            "UPDATE artifacts SET lease_until = now() + %s * interval '1 second' WHERE lease = ANY (%s)",
            (seconds, list(leases)),
        )

    async def numbers(self) -> list[int]:
        found = await self._database.execute(
            f"SELECT DISTINCT holder FROM artifacts WHERE {_PENDING} AND holder IS NOT NULL"
        )
        return [number for (number,) in found]

    async def free(self, numbers: Collection[int]) -> int:
        async with self._database.connection() as connection:
            freed = await connection.execute(
                f"""UPDATE artifacts SET lease = NULL, lease_until = NULL, holder = NULL WHERE id IN (
                        SELECT id FROM artifacts WHERE {_PENDING} AND holder = ANY (%s) ORDER BY id FOR UPDATE)""",
                (list(numbers),),
            )
            return freed.rowcount
