"""Resolves actions within the caller's transaction."""

from collections.abc import Sequence
from typing import Final

from libs.contracts.api.sessions import Turn
from libs.eventing import Transaction
from libs.persistence import as_json
from services.runtime.adapters.postgres.session_reads import turn_by_id
from services.runtime.domain.actions import Answer, LockedAction
from services.runtime.domain.conversation import ToolResult
from services.runtime.domain.conversation_json import tool_result_to_json

_SELECT: Final = """
    SELECT id, kind, step, call_id, tool_call ->> 'name', state, decision, answer_hash, expires_at <= now() FROM actions
"""
_ACTION: Final = f"{_SELECT} WHERE id = %s AND turn_id = %s"
_EXPIRED: Final = f"""
    {_SELECT} WHERE turn_id = %s AND state = 'open' AND expires_at <= now() ORDER BY created_at, id
"""
# An approved call has no result yet: it is made when the turn goes on.
_RESOLVE: Final = """
    WITH resolved AS (
        UPDATE actions SET state = 'resolved', decision = %(decision)s, answer_hash = %(hash)s, resolved_by = %(by)s,
                           resolved_at = now()
        WHERE id = %(id)s AND state = 'open' RETURNING turn_id, step, call_id
    ), recorded AS (
        INSERT INTO steps (turn_id, number, call_id, kind, payload)
        SELECT turn_id, step, call_id, 'tool_result', %(result)s::json FROM resolved WHERE %(result)s::json IS NOT NULL
    )
    UPDATE turns t
    SET event_sequence = t.event_sequence + %(events)s,
        status = CASE WHEN EXISTS (SELECT FROM actions a
                                   WHERE a.turn_id = t.id AND a.state = 'open' AND a.id <> %(id)s)
                      THEN 'waiting' ELSE 'queued' END
    FROM resolved r WHERE t.id = r.turn_id AND t.status = 'waiting'
    RETURNING t.status
"""


class PostgresActions:
    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def action(self, turn_id: str, action_id: str) -> LockedAction | None:
        row = await (await self._connection.execute(_ACTION, (action_id, turn_id))).fetchone()
        return None if row is None else LockedAction(*row)

    async def expired(self, turn_id: str) -> Sequence[LockedAction]:
        cursor = await self._connection.execute(_EXPIRED, (turn_id,))
        return [LockedAction(*row) for row in await cursor.fetchall()]

    async def resolve(
        self, action: LockedAction, answer: Answer | None, result: ToolResult | None, *, by: str, events: int
    ) -> bool:
        cursor = await self._connection.execute(
            _RESOLVE,
            {
                "id": action.id,
                "decision": "expired" if answer is None else answer.decision,
                "hash": None if answer is None else answer.hash,
                "by": by,
                "result": None if result is None else as_json(tool_result_to_json(result)),
                "events": events,
            },
        )
        row = await cursor.fetchone()
        if row is None:
            raise RuntimeError("an action was resolved without the lock of its session")
        return bool(row[0] == "queued")

    async def turn(self, turn_id: str) -> Turn:
        return await turn_by_id(self._connection, turn_id)
