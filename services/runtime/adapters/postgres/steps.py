"""Records steps of claimed turns, possibly of several turns in one transaction."""

from collections.abc import Sequence
from typing import Final

import psycopg

from libs.contracts.messages import Draft
from libs.eventing import Outbox
from libs.persistence import as_json
from services.runtime.domain.turns import StepRecord

_RECORD: Final = """
    WITH held AS (
        UPDATE turns t SET event_sequence = t.event_sequence + g.events
        FROM unnest(%(turns)s::text[], %(fences)s::integer[], %(events)s::integer[]) AS g (id, fence, events)
        WHERE t.id = g.id AND t.fence = g.fence AND t.status = 'running'
        RETURNING t.id, t.event_sequence
    ), kept AS (
        INSERT INTO steps (turn_id, number, call_id, kind, payload, model, usage, status)
        SELECT s.turn_id, s.number, s.call_id, s.kind, s.payload, s.model, s.usage, s.status
        FROM json_to_recordset(%(steps)s) AS s (
            turn_id text, number integer, call_id text, kind text, payload json, model text, usage json, status text)
        JOIN held ON held.id = s.turn_id
    )
    SELECT id, event_sequence FROM held
"""


async def record_steps(outbox: Outbox, steps: Sequence[StepRecord]) -> list[bool]:
    """Records steps. Returns False for each step whose turn this worker no longer holds."""
    try:
        return await _record(outbox, steps)
    except psycopg.errors.UniqueViolation as problem:
        if len(steps) > 1 or problem.diag.constraint_name != "pk_steps":
            raise
        return [True]  # an earlier commit succeeded, but its acknowledgement was lost


async def _record(outbox: Outbox, steps: Sequence[StepRecord]) -> list[bool]:
    turns = {step.turn.id: step.turn for step in steps}
    events = dict.fromkeys(turns, 0)
    for step in steps:
        events[step.turn.id] += len(step.events)
    async with outbox.pipelined() as transaction:
        cursor = await transaction.connection.execute(
            _RECORD,
            {
                "turns": list(turns),
                "fences": [turn.fence for turn in turns.values()],
                "events": list(events.values()),
                "steps": as_json([{"turn_id": each.turn.id, **each.step.to_row()} for each in steps]),
            },
        )
        last: dict[str, int] = dict(await cursor.fetchall())
        following = {turn_id: last[turn_id] - events[turn_id] + 1 for turn_id in last}
        transaction.drafts.extend(draft for step in steps for draft in _step_events(step, following))
    return [step.turn.id in last for step in steps]


def _step_events(step: StepRecord, following: dict[str, int]) -> list[Draft]:
    turn = step.turn
    if turn.id not in following:
        return []
    first = following[turn.id]
    following[turn.id] = first + len(step.events)
    return [turn.draft(event, first + index) for index, event in enumerate(step.events)]
