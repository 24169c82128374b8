"""Records in PostgreSQL which artifacts were copied to the company's files."""

from collections.abc import Sequence
from typing import Any, Literal

from psycopg.types.json import Jsonb

from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.eventing import Transaction
from libs.persistence import fetch_records
from services.artifacts.adapters.postgres.artifacts import COLUMNS, artifact_of
from services.artifacts.domain.platform import CopyState, InFlightState, OutboundCommand

_FROM = "FROM artifacts a JOIN sessions s ON s.id = a.session_id"
_COPY = f"SELECT {COLUMNS}, a.platform_state AS copy_state, a.platform_file_id AS file_id {_FROM}"
# Artifacts whose copy may still change: ingestion also answers commands for artifacts that were deleted meanwhile.
_FOLLOWED = "(a.deleted_at IS NULL OR a.platform_state IN ('copying', 'removing'))"
_UNANSWERED = f"""
    WITH found AS (
        SELECT id FROM artifacts a
        WHERE platform_state IN ('copying', 'removing')
          AND (platform_sent_at IS NULL OR platform_sent_at < now() - make_interval(secs => %s))
          AND EXISTS (SELECT FROM platform_requests r WHERE r.artifact_id = a.id)
        ORDER BY platform_sent_at NULLS FIRST LIMIT %s FOR UPDATE SKIP LOCKED
    ), sent AS (UPDATE artifacts SET platform_sent_at = now() FROM found WHERE artifacts.id = found.id)
    SELECT {COLUMNS}, a.platform_state AS copy_state, a.platform_file_id AS file_id,
           a.platform_command_id AS command_id, a.platform_identity AS identity,
           a.platform_correlation_id AS correlation_id
    {_FROM} JOIN found ON found.id = a.id
"""


class PostgresPlatformWriter:
    """Changes the state of copies in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def lock(self, artifact_id: str) -> CopyState | None:
        """Locks an artifact until the end of the transaction. Returns None if the artifact is missing or deleted."""
        return await self._locked("a.deleted_at IS NULL AND a.id = %s", artifact_id)

    async def lock_file(self, file_id: str) -> CopyState | None:
        """Locks the artifact that was copied to this file, if any."""
        return await self._locked(f"{_FOLLOWED} AND a.platform_file_id = %s", file_id)

    async def lock_command(self, command_id: str) -> CopyState | None:
        """Locks the artifact for which this command to ingestion was sent, if any."""
        return await self._locked(f"{_FOLLOWED} AND a.platform_command_id = %s", command_id)

    async def _locked(self, condition: str, value: str) -> CopyState | None:
        rows = await fetch_records(self._connection, f"{_COPY} WHERE {condition} FOR UPDATE OF a", (value,))
        return _copy_state(rows[0]) if rows else None

    async def begin(self, command: OutboundCommand) -> None:
        """Records that this transaction sends a command to ingestion."""
        await self._connection.execute(
            """UPDATE artifacts
               SET platform_state = %s, platform_file_id = %s, platform_command_id = %s, platform_identity = %s,
                   platform_correlation_id = %s, platform_sent_at = now(), updated_at = clock_timestamp()
               WHERE id = %s""",
            (
                command.copy.state,
                command.copy.file_id,
                command.command_id,
                Jsonb(command.identity.model_dump(mode="json")),
                command.correlation_id,
                command.copy.artifact.id,
            ),
        )

    async def settle(self, artifact_id: str, state: Literal["none", "copied"], file_id: str | None) -> None:
        """Records the state of the copy after ingestion's answer."""
        await self._connection.execute(
            """UPDATE artifacts
               SET platform_state = %s, platform_file_id = %s, platform_command_id = NULL, platform_identity = NULL,
                   platform_correlation_id = NULL, platform_sent_at = NULL, updated_at = clock_timestamp()
               WHERE id = %s""",
            (state, file_id, artifact_id),
        )

    async def wait(self, artifact_id: str, state: InFlightState, context: MessageContext) -> None:
        """Registers a caller's command, which ends when ingestion answers."""
        await self._connection.execute(
            """INSERT INTO platform_requests (command_id, artifact_id, state, company_id, correlation_id, traceparent)
               VALUES (%s, %s, %s, %s, %s, %s)""",
            (context.causation_id, artifact_id, state, context.company_id, context.correlation_id, context.traceparent),
        )

    async def take_waiting(self, artifact_id: str) -> list[tuple[InFlightState, MessageContext]]:
        """Removes and returns the callers' commands that are waiting for ingestion's answer."""
        found = await self._connection.execute(
            """DELETE FROM platform_requests WHERE artifact_id = %s
               RETURNING state, company_id, correlation_id, command_id, traceparent""",
            (artifact_id,),
        )
        return [(row[0], MessageContext(*row[1:])) for row in await found.fetchall()]

    async def unanswered(self, seconds: float, limit: int) -> Sequence[OutboundCommand]:
        """Returns the commands to ingestion that were sent at least ``seconds`` ago. Records that they're resent."""
        return [
            OutboundCommand(
                command_id=row.pop("command_id"),
                identity=Identity.model_validate(row.pop("identity")),
                correlation_id=row.pop("correlation_id"),
                copy=_copy_state(row),
            )
            for row in await fetch_records(self._connection, _UNANSWERED, (seconds, limit))
        ]


def _copy_state(row: dict[str, Any]) -> CopyState:
    state, file_id = row.pop("copy_state"), row.pop("file_id")
    return CopyState(artifact=artifact_of(row), state=state, file_id=file_id)
