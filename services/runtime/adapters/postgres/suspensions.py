"""Suspends turns: a claimed turn becomes a waiting one with open actions, and lets its worker go."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.contracts.events.runtime import TurnActionRequired
from libs.contracts.messages import Draft
from libs.persistence import Connection, as_json
from services.runtime.domain.actions import NewAction, call_hash
from services.runtime.domain.turns import TurnOutcome

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
        INSERT INTO actions (id, turn_id, session_id, company_id, owner_id, kind, step, call_id, tool_call, call_hash,
                             expires_at)
        SELECT a.id, t.id, t.session_id, t.company_id, s.owner_id, a.kind, a.step, a.call_id, a.tool_call, a.call_hash,
               now() + make_interval(secs => %(ttl)s)
        FROM json_to_recordset(%(actions)s) AS a (
            id text, turn_id text, kind text, step integer, call_id text, tool_call json, call_hash text)
        JOIN suspended t ON t.id = a.turn_id JOIN sessions s ON s.id = t.session_id
    )
    SELECT id, event_sequence, now() + make_interval(secs => %(ttl)s) FROM suspended
"""


async def suspend(connection: Connection, waiting: Sequence[TurnOutcome], *, ttl: float) -> AsyncCursor[TupleRow]:
    """In sessions that the caller's transaction has locked; of each turn that was still held a row, with its newest
    sequence and the expiry of its actions."""
    turns = [{"id": o.turn.id, "fence": o.turn.fence, "events": len(o.actions)} for o in waiting]
    actions = [_row(outcome.turn.id, action) for outcome in waiting for action in outcome.actions]
    return await connection.execute(_SUSPEND, {"turns": as_json(turns), "actions": as_json(actions), "ttl": ttl})


def required_events(waiting: Sequence[TurnOutcome], suspended: Mapping[str, TupleRow]) -> list[Draft]:
    drafts = []
    for outcome in waiting:
        turn = outcome.turn
        if turn.id not in suspended:
            continue
        _, last, expires_at = suspended[turn.id]
        for number, action in enumerate(outcome.actions, last - len(outcome.actions) + 1):
            event = TurnActionRequired(
                session_id=turn.session_id, turn_id=turn.id, step=action.step, action=action.required(expires_at)
            )
            drafts.append(turn.draft(event, number))
    return drafts


def _row(turn_id: str, action: NewAction) -> dict[str, Any]:
    call = action.call
    return {
        "id": action.id,
        "turn_id": turn_id,
        "kind": action.kind,
        "step": action.step,
        "call_id": call.id,
        "tool_call": {"id": call.id, "name": call.name, "arguments": call.arguments},
        "call_hash": call_hash(call),
    }
