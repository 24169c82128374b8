"""Finds the processes that hold work leases, by the numbers of their liveness locks."""

from collections.abc import Collection
from typing import Final

from libs.persistence import Database

# Each part of this query uses an index of running work.
_HOLDERS: Final = """
    SELECT holder FROM ingestion_items WHERE token IS NOT NULL AND holder IS NOT NULL
    UNION SELECT holder FROM ingestion_runs
    WHERE state IN ('planning', 'finishing') AND token IS NOT NULL AND holder IS NOT NULL
    UNION SELECT holder FROM texts WHERE state = 'running' AND holder IS NOT NULL
    UNION SELECT holder FROM artifact_documents WHERE state = 'pending' AND holder IS NOT NULL
"""
# Texts are freed first, because an item can only be claimed with its text. Each statement locks rows in key order.
_FREE_TEXTS: Final = """
    UPDATE texts t SET state = 'pending', lease_until = NULL, holder = NULL FROM (
        SELECT blob_id, content_type FROM texts WHERE state = 'running' AND holder = ANY (%s)
        ORDER BY blob_id, content_type FOR UPDATE) held
    WHERE (t.blob_id, t.content_type) = (held.blob_id, held.content_type)
"""
_FREE_ITEMS: Final = """
    UPDATE ingestion_items d
    SET state = CASE d.state WHEN 'running' THEN 'pending' ELSE d.state END, phase = '', token = NULL,
        lease_until = NULL, holder = NULL, sent_at = NULL
    FROM (
        SELECT index_id, file_id FROM ingestion_items WHERE token IS NOT NULL AND holder = ANY (%s)
        ORDER BY index_id, file_id FOR UPDATE) held
    WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id)
"""
_FREE_RUNS: Final = """
    UPDATE ingestion_runs r SET token = NULL, lease_until = NULL, holder = NULL, sent_at = NULL FROM (
        SELECT id FROM ingestion_runs
        WHERE state IN ('planning', 'finishing') AND token IS NOT NULL AND holder = ANY (%s)
        ORDER BY id FOR UPDATE) held
    WHERE r.id = held.id
"""
_FREE_DOCUMENTS: Final = """
    UPDATE artifact_documents d SET token = NULL, lease_until = NULL, holder = NULL FROM (
        SELECT artifact_id FROM artifact_documents
        WHERE state = 'pending' AND holder = ANY (%s) ORDER BY artifact_id FOR UPDATE) held
    WHERE d.artifact_id = held.artifact_id AND d.state = 'pending'
"""


def no_holder() -> None:
    """Returns None, for a process without a liveness lock."""


class PostgresHolders:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def numbers(self) -> list[int]:
        return [number for (number,) in await self._database.execute(_HOLDERS)]

    async def free(self, numbers: Collection[int]) -> int:
        # Each kind is freed in its own transaction. A single transaction would lock items while it waits for runs, but
        # other transactions lock runs first.
        async with self._database.connection() as connection:
            freed = [
                (await connection.execute(statement, (list(numbers),))).rowcount
                for statement in (_FREE_TEXTS, _FREE_ITEMS, _FREE_RUNS, _FREE_DOCUMENTS)
            ]
        return sum(freed)
