"""Stores the waits of suspended turns. A guarded update ensures that each wait is resolved only once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.contracts.messages import Draft
from libs.contracts.resources.turns import TurnActionRequired
from libs.eventing import Transaction
from libs.json_text import read_json
from libs.persistence import Connection, as_json
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import TurnOutcome
from services.runtime.domain.waits import Answer, LockedWait, NewWait

# A suspended turn doesn't have a worker or a deadline.
_SUSPEND: Final = """
    WITH given AS (
        SELECT * FROM json_to_recordset(%(turns)s) AS g (id text, fence integer, events integer)
    ), suspended AS (
        UPDATE turns t SET status = 'waiting', worker_id = NULL, deadline = NULL, claimed_at = NULL,
                           worked = t.worked + coalesce(extract(epoch FROM now() - t.claimed_at), 0),
                           event_sequence = t.event_sequence + g.events
        FROM given g WHERE t.id = g.id AND t.fence = g.fence AND t.status = 'running'
        RETURNING t.id, t.session_id, t.company_id, t.event_sequence
    ), opened AS (
        INSERT INTO waits (id, turn_id, session_id, company_id, owner_id, kind, step, call_id, payload, due_at,
                           expires_at)
        SELECT w.id, t.id, t.session_id, t.company_id, s.owner_id, w.kind, w.step, w.call_id, w.payload, w.due_at,
               now() + make_interval(secs => %(ttl)s)
        FROM json_to_recordset(%(waits)s) AS w (
            id text, turn_id text, kind text, step integer, call_id text, payload json, due_at timestamptz)
        JOIN suspended t ON t.id = w.turn_id JOIN sessions s ON s.id = t.session_id
    )
    SELECT id, event_sequence, now() + make_interval(secs => %(ttl)s) FROM suspended
"""
_SELECT: Final = """
    SELECT id, kind, step, coalesce(call_id, ''), payload::text, state, decision, answer_hash, expires_at <= now()
    FROM waits
"""
_WAIT: Final = f"{_SELECT} WHERE id = %s AND turn_id = %s"
_IS_DUE: Final = "state = 'open' AND (due_at <= now() OR expires_at <= now())"
_DUE: Final = f"{_SELECT} WHERE turn_id = %s AND {_IS_DUE} ORDER BY created_at, id"
# An approved call doesn't have a result yet, because it's made when the turn resumes.
_RESOLVE: Final = """
    WITH resolved AS (
        UPDATE waits SET state = 'resolved', decision = %(decision)s, answer_hash = %(hash)s, resolved_by = %(by)s,
                         resolved_at = now()
        WHERE id = %(id)s AND state = 'open' RETURNING turn_id
    ), recorded AS (
        INSERT INTO steps (turn_id, number, call_id, kind, payload, status)
        SELECT r.turn_id, s.number, s.call_id, s.kind, s.payload, s.status
        FROM resolved r CROSS JOIN json_to_recordset(%(steps)s) AS s (
            number integer, call_id text, kind text, payload json, status text)
    )
    UPDATE turns t
    SET event_sequence = t.event_sequence + %(events)s,
        status = CASE WHEN EXISTS (SELECT FROM waits w
                                   WHERE w.turn_id = t.id AND w.state = 'open' AND w.id <> %(id)s)
                      THEN 'waiting' ELSE 'queued' END
    FROM resolved r WHERE t.id = r.turn_id AND t.status = 'waiting'
    RETURNING t.status
"""


async def suspend(connection: Connection, waiting: Sequence[TurnOutcome], *, ttl: float) -> AsyncCursor[TupleRow]:
    """Suspends turns in locked sessions. Returns the ID, last event number and wait expiry of each suspended turn."""
    turns = [{"id": o.turn.id, "fence": o.turn.fence, "events": len(o.waits)} for o in waiting]
    waits = [_row(outcome.turn.id, wait) for outcome in waiting for wait in outcome.waits]
    return await connection.execute(_SUSPEND, {"turns": as_json(turns), "waits": as_json(waits), "ttl": ttl})


def required_events(waiting: Sequence[TurnOutcome], suspended: Mapping[str, TupleRow]) -> list[Draft]:
    drafts = []
    for outcome in waiting:
        turn = outcome.turn
        if turn.id not in suspended:
            continue
        _, last, expires_at = suspended[turn.id]
        for number, wait in enumerate(outcome.waits, last - len(outcome.waits) + 1):
            event = TurnActionRequired(
                session_id=turn.session_id, turn_id=turn.id, step=wait.step, action=wait.required(expires_at)
            )
            drafts.append(turn.draft(event, number))
    return drafts


class PostgresWaits:
    """Resolves waits in a transaction that has already locked their session."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def find(self, turn_id: str, wait_id: str) -> LockedWait | None:
        row = await (await self._connection.execute(_WAIT, (wait_id, turn_id))).fetchone()
        return None if row is None else _wait(row)

    async def due(self, turn_id: str) -> list[LockedWait]:
        """Returns the turn's open waits that are due."""
        cursor = await self._connection.execute(_DUE, (turn_id,))
        return [_wait(row) for row in await cursor.fetchall()]

    async def resolve(self, wait: LockedWait, answer: Answer, step: Step | None, *, by: str, events: int) -> bool:
        """Resolves an open wait and records ``step``, which contains the call's result, if any.

        The turn reserves ``events`` event numbers. Returns True if the turn resumes, because no other wait is open.
        """
        cursor = await self._connection.execute(
            _RESOLVE,
            {
                "id": wait.id,
                "decision": answer.decision,
                "hash": answer.hash,
                "by": by,
                "steps": as_json([] if step is None else [step.to_row()]),
                "events": events,
            },
        )
        row = await cursor.fetchone()
        if row is None:
            raise RuntimeError("a wait was resolved without locking its session")
        return bool(row[0] == "queued")


def _row(turn_id: str, wait: NewWait) -> dict[str, Any]:
    return {**asdict(wait), "turn_id": turn_id}


def _wait(row: tuple[Any, ...]) -> LockedWait:
    wait_id, kind, step, call_id, payload, *rest = row
    return LockedWait(wait_id, kind, step, call_id, read_json(payload), *rest)
