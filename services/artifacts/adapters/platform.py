"""Copies to the platform in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, Literal

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.eventing import MessageContext
from libs.persistence import Connection, Database
from services.artifacts.adapters.artifact_rows import COLUMNS, artifact_of
from services.artifacts.domain.platform import Errand, ErrandState, PlatformPlace

_PLACE = f"""
    SELECT {COLUMNS}, a.platform_state AS place, a.platform_file_id AS file_id
    FROM artifacts a JOIN sessions s ON s.id = a.session_id
"""
# What is on its way comes to its end, also when the session is deleted meanwhile.
_FOLLOWED = "(a.state = 'stored' OR a.state = 'deleted' AND a.platform_state IN ('copying', 'removing'))"


class PostgresPlatformWriter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lock(self, artifact_id: str) -> PlatformPlace | None:
        return await self._place("a.state = 'stored' AND a.id = %s", artifact_id)

    async def lock_file(self, file_id: str) -> PlatformPlace | None:
        return await self._place(f"{_FOLLOWED} AND a.platform_file_id = %s", file_id)

    async def lock_errand(self, command_id: str) -> PlatformPlace | None:
        return await self._place(f"{_FOLLOWED} AND a.platform_command_id = %s", command_id)

    async def begin(
        self, artifact_id: str, state: ErrandState, file_id: str, caller: Identity, correlation_id: str
    ) -> None:
        await self._connection.execute(
            """UPDATE artifacts
               SET platform_state = %s, platform_file_id = %s, platform_command_id = %s, platform_identity = %s,
                   platform_correlation_id = %s, platform_sent_at = NULL, updated_at = clock_timestamp()
               WHERE id = %s""",
            (state, file_id, new_id(), Jsonb(caller.model_dump(mode="json")), correlation_id, artifact_id),
        )

    async def settle(self, artifact_id: str, state: Literal["none", "copied"], file_id: str | None) -> None:
        await self._connection.execute(
            """UPDATE artifacts
               SET platform_state = %s, platform_file_id = %s, platform_command_id = NULL, platform_identity = NULL,
                   platform_correlation_id = NULL, platform_sent_at = NULL, updated_at = clock_timestamp()
               WHERE id = %s""",
            (state, file_id, artifact_id),
        )

    async def wait(self, artifact_id: str, state: ErrandState, context: MessageContext) -> None:
        await self._connection.execute(
            """INSERT INTO platform_requests (command_id, artifact_id, state, company_id, correlation_id, traceparent)
               VALUES (%s, %s, %s, %s, %s, %s)""",
            (context.causation_id, artifact_id, state, context.company_id, context.correlation_id, context.traceparent),
        )

    async def waiting(self, artifact_ids: Sequence[str]) -> list[tuple[ErrandState, MessageContext]]:
        found = await self._connection.execute(
            """DELETE FROM platform_requests WHERE artifact_id = ANY (%s)
               RETURNING state, company_id, correlation_id, command_id, traceparent""",
            (list(artifact_ids),),
        )
        return [(row[0], MessageContext(*row[1:])) for row in await found.fetchall()]

    async def not_sent(self, artifact_ids: Sequence[str]) -> list[str]:
        found = await self._connection.execute(
            "SELECT id FROM artifacts WHERE id = ANY (%s) AND platform_sent_at IS NULL", (list(artifact_ids),)
        )
        return [artifact_id for (artifact_id,) in await found.fetchall()]

    async def _place(self, condition: str, value: str) -> PlatformPlace | None:
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(f"{_PLACE} WHERE {condition} FOR UPDATE OF a".encode(), (value,))
            row: dict[str, Any] | None = await cursor.fetchone()
        if row is None:
            return None
        state, file_id = row.pop("place"), row.pop("file_id")
        return PlatformPlace(artifact=artifact_of(row), state=state, file_id=file_id)


class PostgresErrands:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, seconds: float, limit: int) -> list[Errand]:
        async with (
            self._database.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            await cursor.execute(
                """SELECT platform_command_id AS command_id, platform_state AS state, id AS artifact_id, session_id,
                          platform_file_id AS file_id, name, content_type, platform_identity AS identity,
                          platform_correlation_id AS correlation_id
                   FROM artifacts
                   WHERE state = 'stored' AND platform_state IN ('copying', 'removing')
                     AND (platform_sent_at IS NULL OR platform_sent_at < now() - %s * interval '1 second')
                   ORDER BY updated_at LIMIT %s""",
                (seconds, limit),
            )
            rows = await cursor.fetchall()
        return [Errand(**{**row, "identity": Identity.model_validate(row["identity"])}) for row in rows]

    async def sent(self, command_ids: Sequence[str]) -> None:
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE artifacts SET platform_sent_at = now() WHERE platform_command_id = ANY (%s)",
                (list(command_ids),),
            )
