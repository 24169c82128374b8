"""Uploads in PostgreSQL: a row precedes the bytes."""

from dataclasses import asdict
from hashlib import sha256
from typing import Final

from psycopg.types.json import Jsonb

from libs.contracts.errors import Conflict, ValidationFailed
from libs.eventing import Transaction
from libs.persistence import Database, fetch_records, fetch_value
from libs.quotas import CompanyAmounts
from services.artifacts.adapters import metrics
from services.artifacts.adapters.postgres.artifacts import STORED, artifact_of
from services.artifacts.domain.artifacts import SessionNotFound, StoredArtifact
from services.artifacts.domain.ports import Content, NewArtifact

ARTIFACT_BYTES: Final = "artifact_bytes"


class PostgresUploads:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, artifact: NewArtifact) -> None:
        await self._database.execute(
            """INSERT INTO artifacts (id, session_id, name, content_type, origin, strategy, created_by, correlation_id)
               VALUES (%(id)s, %(session_id)s, %(name)s, %(content_type)s, %(origin)s, %(strategy)s, %(created_by)s,
                       %(correlation_id)s)""",
            asdict(artifact),
        )

    async def abandon(self, artifact_id: str) -> bool:
        given_up = await self._database.execute(
            """UPDATE artifacts SET state = 'abandoned', state_since = now()
               WHERE id = %s AND state IN ('uploading', 'abandoned') RETURNING id""",
            (artifact_id,),
        )
        return bool(given_up)


class PostgresUploadWriter:
    def __init__(self, transaction: Transaction, amounts: CompanyAmounts) -> None:
        self._connection = transaction.connection
        self._amounts = amounts

    async def complete(self, artifact: NewArtifact, content: Content, key: str | None) -> tuple[StoredArtifact, bool]:
        company_id = await self._company_of(artifact.session_id)
        if key is not None:
            earlier = await self._earlier(artifact, content, key)
            if earlier is not None:
                return await self._stored(earlier), False
        await self._amounts.check(self._connection, company_id, {ARTIFACT_BYTES: content.size})
        stored = await self._connection.execute(
            """UPDATE artifacts
               SET state = 'stored', state_since = now(), size = %s, sha256 = %s, status = %s, progress = %s,
                   metadata = %s, updated_at = clock_timestamp()
               WHERE id = %s AND state = 'uploading'""",
            (
                content.size,
                content.sha256,
                content.status,
                100 if content.status == "ready" else 0,
                Jsonb(dict(content.metadata)),
                artifact.id,
            ),
        )
        if not stored.rowcount:
            raise Conflict("The upload took so long that it was given up; repeat it.")
        metrics.UPLOADS.labels(artifact.strategy).inc()
        metrics.UPLOADED_BYTES.inc(content.size)
        return await self._stored(artifact.id), True

    async def _company_of(self, session_id: str) -> str:
        """The company of a session that is there.

        A deletion of the session waits until this transaction has ended, and so finds what it stores.
        """
        company_id: str | None = await fetch_value(
            self._connection,
            "SELECT company_id FROM sessions WHERE id = %s AND deleted_at IS NULL FOR SHARE",
            (session_id,),
        )
        if company_id is None:
            raise SessionNotFound
        return company_id

    async def _earlier(self, artifact: NewArtifact, content: Content, key: str) -> str | None:
        place = (artifact.session_id, artifact.created_by, key)
        content_hash = sha256(f"{content.sha256} {artifact.name}".encode()).hexdigest()
        entered = await self._connection.execute(
            """INSERT INTO upload_keys (session_id, user_id, key, content_hash, artifact_id)
               VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            (*place, content_hash, artifact.id),
        )
        if entered.rowcount:
            return None
        found = await self._connection.execute(
            "SELECT content_hash, artifact_id FROM upload_keys WHERE (session_id, user_id, key) = (%s, %s, %s)", place
        )
        row = await found.fetchone()
        if row is None:
            raise Conflict("An upload with this Idempotency-Key is just being forgotten; repeat it.")
        if row[0] != content_hash:
            raise ValidationFailed("The Idempotency-Key was used before with another file.")
        return str(row[1])

    async def _stored(self, artifact_id: str) -> StoredArtifact:
        [row] = await fetch_records(self._connection, f"{STORED} AND a.id = %s", (artifact_id,))
        return artifact_of(row)
