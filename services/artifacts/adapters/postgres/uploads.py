"""New artifacts in PostgreSQL."""

from dataclasses import asdict
from typing import Final

from psycopg.types.json import Jsonb

from libs.eventing import Transaction
from libs.persistence import fetch_records, fetch_value
from libs.quotas import CompanyAmounts
from services.artifacts.adapters import metrics
from services.artifacts.adapters.postgres.artifacts import STORED, artifact_of
from services.artifacts.domain.artifacts import NewArtifact, SessionNotFound, StoredArtifact

ARTIFACT_BYTES: Final = "artifact_bytes"


class PostgresNewArtifacts:
    def __init__(self, transaction: Transaction, amounts: CompanyAmounts) -> None:
        self._connection = transaction.connection
        self._amounts = amounts

    async def lock_session(self, session_id: str) -> None:
        query = "SELECT id FROM sessions WHERE id = %s AND deleted_at IS NULL FOR SHARE"
        if await fetch_value(self._connection, query, (session_id,)) is None:
            raise SessionNotFound

    async def add(self, company_id: str, artifact: NewArtifact) -> StoredArtifact:
        await self._amounts.check(self._connection, company_id, {ARTIFACT_BYTES: artifact.size})
        await self._connection.execute(
            """INSERT INTO artifacts (id, session_id, blob_id, name, content_type, size, sha256, origin, strategy,
                                      status, progress, metadata, created_by, correlation_id)
               VALUES (%(id)s, %(session_id)s, %(blob_id)s, %(name)s, %(content_type)s, %(size)s, %(sha256)s,
                       %(origin)s, %(strategy)s, %(status)s, CASE %(status)s WHEN 'ready' THEN 100 ELSE 0 END,
                       %(metadata)s, %(created_by)s, %(correlation_id)s)""",
            {**asdict(artifact), "metadata": Jsonb(dict(artifact.metadata))},
        )
        metrics.UPLOADS.labels(artifact.strategy).inc()
        metrics.UPLOADED_BYTES.inc(artifact.size)
        return await self.get(artifact.id)

    async def get(self, artifact_id: str) -> StoredArtifact:
        [row] = await fetch_records(self._connection, f"{STORED} AND a.id = %s", (artifact_id,))
        return artifact_of(row)
