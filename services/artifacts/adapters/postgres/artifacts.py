"""Stores artifacts in PostgreSQL."""

from dataclasses import asdict
from typing import Any, Final

from psycopg.types.json import Jsonb

from libs.blobs import release
from libs.contracts.errors import ErrorInfo
from libs.contracts.pages import Page
from libs.contracts.resources.artifacts import ArtifactFailed, ArtifactProgress, ArtifactReady
from libs.eventing import Transaction
from libs.persistence import Database, Order, as_json, fetch_page, fetch_records, fetch_value
from libs.quotas import CompanyAmounts
from services.artifacts.adapters import metrics
from services.artifacts.domain.artifacts import NewArtifact, SessionNotFound, StoredArtifact

COLUMNS: Final = """
    a.id, coalesce(a.blob_id, '') AS blob_id, a.session_id, s.company_id, s.owner_id, a.name, a.content_type, a.size,
    a.sha256, a.origin, a.strategy, a.status, a.progress, a.error, a.metadata, a.created_at, a.updated_at,
    CASE WHEN a.platform_state IN ('copied', 'removing') THEN a.platform_file_id END AS platform_file_id
"""
_FROM_STORED: Final = """
    FROM artifacts a JOIN sessions s ON s.id = a.session_id WHERE a.deleted_at IS NULL AND s.deleted_at IS NULL
"""
ARTIFACT_BYTES: Final = "artifact_bytes"
STORED: Final = f"SELECT {COLUMNS} {_FROM_STORED}"
_NEWEST_FIRST: Final = Order(("a.created_at", "a.id"), ("timestamptz", "text"))
_Change = ArtifactProgress | ArtifactReady | ArtifactFailed
_PENDING = "id = %(id)s AND deleted_at IS NULL AND status = 'pending'"
_ENDED = "lease = NULL, lease_until = NULL, holder = NULL, updated_at = clock_timestamp()"


class PostgresArtifactReader:
    """Reads artifacts that aren't deleted. Doesn't check whether the caller may see them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, artifact_id: str) -> StoredArtifact | None:
        rows = await self._database.records(f"{STORED} AND a.id = %(id)s", {"id": artifact_id})
        return artifact_of(rows[0]) if rows else None

    async def page(
        self, session_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredArtifact]:
        """Returns a page of the session's artifacts, newest first."""
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, COLUMNS, f"{_FROM_STORED} AND a.session_id = %(session)s", _NEWEST_FIRST,
                {"session": session_id}, limit=limit, offset=offset, cursor=cursor,
                counted="FROM artifacts WHERE session_id = %(session)s AND deleted_at IS NULL",
            )  # fmt: skip
        return page.map(artifact_of)

    async def all(self, session_id: str) -> list[StoredArtifact]:
        """Returns all of the session's artifacts, oldest first."""
        rows = await self._database.records(
            f"{STORED} AND a.session_id = %(session)s ORDER BY a.created_at, a.id", {"session": session_id}
        )
        return [artifact_of(row) for row in rows]


class PostgresArtifactWriter:
    """Changes artifacts in the caller's transaction.

    ``progress``, ``ready`` and ``failed`` emit their event if they change the artifact, which must be pending.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection

    async def lock_session(self, session_id: str) -> None:
        """Prevents the session's deletion until the end of the transaction. Raises ``SessionNotFound``."""
        query = "SELECT id FROM sessions WHERE id = %s AND deleted_at IS NULL FOR SHARE"
        if await fetch_value(self._connection, query, (session_id,)) is None:
            raise SessionNotFound

    async def add(self, company_id: str, artifact: NewArtifact, amounts: CompanyAmounts) -> StoredArtifact:
        """Stores a new artifact. Raises ``QuotaExceeded``."""
        await amounts.check(self._connection, company_id, {ARTIFACT_BYTES: artifact.size})
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

    async def progress(self, event: ArtifactProgress) -> None:
        statement = f"UPDATE artifacts SET progress = %(progress)s WHERE {_PENDING} AND progress < %(progress)s"
        await self._change(statement, event, progress=event.progress)

    async def ready(self, event: ArtifactReady, *, lease: str | None = None) -> None:
        changes = "status = 'ready', progress = 100, metadata = %(value)s"
        await self._end("ready", changes, Jsonb(dict(event.metadata)), event, lease)

    async def failed(self, event: ArtifactFailed, *, lease: str | None = None) -> None:
        error = Jsonb(event.error.model_dump(mode="json", exclude_none=True), dumps=as_json)
        await self._end("failed", "status = 'failed', error = %(value)s", error, event, lease)

    async def delete_session(self, session_id: str, company_id: str) -> list[str]:
        """Marks the session and its artifacts as deleted. Returns the artifacts' IDs."""
        await self._connection.execute(
            """INSERT INTO sessions AS s (id, company_id, owner_id, deleted_at) VALUES (%s, %s, '', now())
               ON CONFLICT (id) DO UPDATE SET deleted_at = coalesce(s.deleted_at, now())""",
            (session_id, company_id),
        )
        # This must be a second statement, so that it sees artifacts stored before the session was locked.
        deleted = await self._connection.execute(
            """WITH before AS (SELECT id, blob_id FROM artifacts WHERE session_id = %s AND deleted_at IS NULL)
               UPDATE artifacts a SET deleted_at = now(), blob_id = NULL, name = '', metadata = '{}', error = NULL
               FROM before WHERE a.id = before.id RETURNING a.id, before.blob_id""",
            (session_id,),
        )
        blobs: dict[str, str] = dict(await deleted.fetchall())
        await release(self._connection, list(blobs.values()))
        return sorted(blobs)

    async def _end(self, outcome: str, changes: str, value: Jsonb, event: _Change, lease: str | None) -> None:
        statement = f"""
            UPDATE artifacts SET {changes}, {_ENDED} WHERE {_PENDING} AND lease IS NOT DISTINCT FROM %(lease)s
        """
        if await self._change(statement, event, value=value, lease=lease):
            metrics.PROCESSED.labels(outcome).inc()

    async def _change(self, statement: str, event: _Change, **values: Any) -> bool:
        changed = await self._connection.execute(statement.encode(), {**values, "id": event.artifact_id})
        if changed.rowcount == 1:
            self._transaction.emit(event, subject=event.artifact_id)
        return changed.rowcount == 1


def artifact_of(row: dict[str, Any]) -> StoredArtifact:
    error = row["error"]
    return StoredArtifact(**{**row, "error": None if error is None else ErrorInfo.model_validate(error)})
