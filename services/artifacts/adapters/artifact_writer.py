"""Changes of artifacts in PostgreSQL, inside a transaction of the caller's."""

import json
from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from libs.contracts.errors import ErrorInfo
from libs.persistence import Connection
from services.artifacts.adapters import metrics

_PENDING = "id = %(id)s AND state = 'stored' AND status = 'pending'"
_ENDED = "lease = NULL, lease_until = NULL, updated_at = clock_timestamp()"


class PostgresArtifactWriter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def progress(self, artifact_id: str, progress: int) -> bool:
        return await self._changed(
            f"UPDATE artifacts SET progress = %(progress)s WHERE {_PENDING} AND progress < %(progress)s",
            id=artifact_id,
            progress=progress,
        )

    async def ready(self, artifact_id: str, metadata: Mapping[str, Any], *, lease: str | None = None) -> bool:
        return await self._ended(
            "ready",
            f"""UPDATE artifacts SET status = 'ready', progress = 100, metadata = %(metadata)s, {_ENDED}
                WHERE {_PENDING} AND lease IS NOT DISTINCT FROM %(lease)s""",
            id=artifact_id,
            metadata=Jsonb(dict(metadata)),
            lease=lease,
        )

    async def failed(self, artifact_id: str, error: ErrorInfo, *, lease: str | None = None) -> bool:
        return await self._ended(
            "failed",
            f"""UPDATE artifacts SET status = 'failed', error = %(error)s, {_ENDED}
                WHERE {_PENDING} AND lease IS NOT DISTINCT FROM %(lease)s""",
            id=artifact_id,
            error=Jsonb(error.model_dump(mode="json", exclude_none=True), dumps=_storable),
            lease=lease,
        )

    async def delete_session(self, session_id: str, company_id: str) -> list[str]:
        await self._connection.execute(
            """INSERT INTO sessions AS s (id, company_id, owner_id, deleted_at) VALUES (%s, %s, '', now())
               ON CONFLICT (id) DO UPDATE SET deleted_at = coalesce(s.deleted_at, now())""",
            (session_id, company_id),
        )
        # Another statement, which sees what was stored before the session was locked.
        deleted = await self._connection.execute(
            """UPDATE artifacts SET state = 'deleted', state_since = now(), name = '', metadata = '{}', error = NULL
               WHERE session_id = %s AND state = 'stored' RETURNING id""",
            (session_id,),
        )
        return sorted(artifact_id for (artifact_id,) in await deleted.fetchall())

    async def _ended(self, outcome: str, statement: str, **parameters: Any) -> bool:
        changed = await self._changed(statement, **parameters)
        if changed:
            metrics.PROCESSED.labels(outcome).inc()
        return changed

    async def _changed(self, statement: str, **parameters: Any) -> bool:
        return (await self._connection.execute(statement.encode(), parameters)).rowcount == 1


def _storable(value: Any) -> str:
    """PostgreSQL has no place for the character, which a message about a damaged file may quote."""
    return json.dumps(value).replace("\\u0000", "")
