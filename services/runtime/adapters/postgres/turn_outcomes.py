"""Commits the outcomes of turns: a batch is one transaction, which also claims the next turns of its sessions."""

from collections.abc import Sequence
from typing import Any, Final

import orjson
import psycopg
import structlog

from libs.eventing import MessageDraft, Outbox
from libs.persistence import Connection, as_json
from services.runtime.adapters.postgres.claims import LOCK_SESSIONS, claim, claimed_turns
from services.runtime.domain.turns import ClaimedTurn, CommitResult, OutcomeKind, TurnOutcome

_log = structlog.get_logger("runtime.turns")

# Fence and status decide: a worker whose turn was taken over or cancelled updates no row, and writes nothing.
_FINISH: Final = """
    WITH given AS (
        SELECT * FROM json_to_recordset(%s) AS g (
            id text, fence integer, status text, message_id text, content text, reply json, usage json,
            error json, step integer, answer json, events integer)
    ), ended AS (
        UPDATE turns t
        SET status = g.status, worker_id = NULL, message_id = g.message_id, reply = g.reply, usage = g.usage,
            error = g.error, finished_at = now(), event_sequence = t.event_sequence + g.events
        FROM given g WHERE t.id = g.id AND t.fence = g.fence AND t.status = 'running'
        RETURNING t.id, t.session_id, t.position, t.event_sequence
    ), said AS (
        INSERT INTO messages (session_id, position, id, turn_id, role, content)
        SELECT e.session_id, 2 * e.position + 1, g.message_id, e.id, 'assistant', g.content
        FROM ended e JOIN given g ON g.id = e.id WHERE g.message_id IS NOT NULL
    ), stepped AS (
        INSERT INTO steps (turn_id, number, kind, payload)
        SELECT e.id, g.step, 'answer', g.answer FROM ended e JOIN given g ON g.id = e.id WHERE g.answer IS NOT NULL
    )
    SELECT id, event_sequence FROM ended
"""
_RELEASE: Final = """
    UPDATE turns t SET worker_id = NULL
    FROM unnest(%s::text[], %s::integer[]) AS g (id, fence)
    WHERE t.id = g.id AND t.fence = g.fence AND t.worker_id IS NOT NULL
    RETURNING t.id, t.event_sequence
"""
_OUTCOME_TAKEN: Final = "uq_outbox_outcome"
_TERMINAL: Final = frozenset({OutcomeKind.COMPLETED, OutcomeKind.FAILED})


class PostgresTurnOutcomes:
    def __init__(self, outbox: Outbox, *, worker_id: str, turn_deadline: float) -> None:
        self._outbox = outbox
        self._worker_id = worker_id
        self._turn_deadline = turn_deadline

    async def commit(self, outcomes: Sequence[TurnOutcome], *, claim_next: bool) -> list[CommitResult]:
        try:
            return await self._commit(outcomes, claim_next=claim_next, with_events=True)
        except psycopg.errors.UniqueViolation as problem:
            if len(outcomes) > 1 or problem.diag.constraint_name != _OUTCOME_TAKEN:
                raise
        # The command was given up while its turn ran: its one outcome stands, only the row is left to end.
        _log.error("turn.outcome_taken", turn_id=outcomes[0].turn.id)
        return await self._commit(outcomes, claim_next=claim_next, with_events=False)

    async def _commit(
        self, outcomes: Sequence[TurnOutcome], *, claim_next: bool, with_events: bool
    ) -> list[CommitResult]:
        terminal = [outcome for outcome in outcomes if outcome.kind in _TERMINAL]
        sessions = list({outcome.turn.session_id for outcome in outcomes})
        next_turns: dict[str, ClaimedTurn] = {}
        async with self._outbox.pipelined() as transaction:
            connection = transaction.connection
            # Sessions first, like admission and take-over: locking a turn first could deadlock with them.
            await connection.execute(LOCK_SESSIONS, (sessions,))
            written = await _write(connection, outcomes, terminal)
            if claim_next:
                claiming = await claim(connection, sessions, worker_id=self._worker_id, deadline=self._turn_deadline)
            applied = {turn_id: sequence for cursor in written for turn_id, sequence in await cursor.fetchall()}
            if with_events:
                transaction.drafts.extend(_events(terminal, applied))
            if claim_next:
                for turn, started in claimed_turns(await claiming.fetchall()):
                    next_turns[turn.session_id] = turn
                    transaction.drafts.append(started)
        # Of two outcomes in one session the first starts the next turn; nothing is started twice.
        return [
            CommitResult(outcome.turn.id in applied, next_turns.pop(outcome.turn.session_id, None))
            for outcome in outcomes
        ]


async def _write(
    connection: Connection, outcomes: Sequence[TurnOutcome], terminal: Sequence[TurnOutcome]
) -> list[psycopg.AsyncCursor[Any]]:
    cursors = []
    if terminal:
        cursors.append(await connection.execute(_FINISH, (as_json([_row(outcome) for outcome in terminal]),)))
    if len(terminal) < len(outcomes):
        released = [outcome.turn for outcome in outcomes if outcome.kind not in _TERMINAL]
        held = ([turn.id for turn in released], [turn.fence for turn in released])
        cursors.append(await connection.execute(_RELEASE, held))
    return cursors


def _events(terminal: Sequence[TurnOutcome], applied: dict[str, int]) -> list[MessageDraft]:
    drafts = []
    for outcome in terminal:
        last = applied.get(outcome.turn.id)
        if last is None or outcome.event is None:
            continue
        # The row took a number for each event; the terminal one has the last.
        first = last - len(outcome.preceding)
        drafts += [outcome.turn.draft(event, first + place) for place, event in enumerate(outcome.preceding)]
        drafts.append(outcome.turn.draft(outcome.event, last, outcome.payload))
    return drafts


def _row(outcome: TurnOutcome) -> dict[str, Any]:
    completed = outcome.kind is OutcomeKind.COMPLETED
    return {
        "id": outcome.turn.id,
        "fence": outcome.turn.fence,
        "status": outcome.kind.value,
        "message_id": outcome.message_id,
        "content": outcome.text if completed else None,
        "reply": orjson.Fragment(outcome.payload) if completed and outcome.payload is not None else None,
        "usage": outcome.usage,
        "error": outcome.error,
        "step": outcome.final_step,
        "answer": outcome.final_answer,
        "events": len(outcome.preceding) + 1,
    }
