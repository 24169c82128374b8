"""Ends turns: a batch is one transaction, which also claims what waits behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
import psycopg
import structlog

from libs.eventing import Transaction
from services.runtime.adapters.postgres.claims import LOCK_SESSIONS, claim, claimed_turns
from services.runtime.adapters.postgres.transactions import HotTransactions, as_json
from services.runtime.domain import turn_events
from services.runtime.domain.turns import ClaimedTurn, CommitResult, OutcomeKind, TurnOutcome

_log = structlog.get_logger("runtime.turns")

# Fence and status decide: a worker whose turn was taken over or cancelled ends no row, and writes nothing.
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


class PostgresTurnOutcomes:
    def __init__(self, transactions: HotTransactions, *, worker_id: str, turn_deadline: float) -> None:
        self._transactions = transactions
        self._worker_id = worker_id
        self._turn_deadline = turn_deadline

    async def end(self, endings: Sequence[TurnOutcome], *, claim_following: bool) -> list[CommitResult]:
        try:
            return await self._end(endings, claim_following=claim_following, tell=True)
        except psycopg.errors.UniqueViolation as problem:
            if len(endings) > 1 or problem.diag.constraint_name != _OUTCOME_TAKEN:
                raise
        # The command was given up while its turn ran: its one outcome stands, only the row is left to end.
        _log.error("turn.outcome_taken", turn_id=endings[0].turn.id)
        return await self._end(endings, claim_following=claim_following, tell=False)

    async def _end(self, endings: Sequence[TurnOutcome], *, claim_following: bool, tell: bool) -> list[CommitResult]:
        finishing = [ending for ending in endings if ending.kind in (OutcomeKind.COMPLETED, OutcomeKind.FAILED)]
        leaving = [ending for ending in endings if ending not in finishing]
        sessions = list({ending.turn.session_id for ending in endings})
        following: dict[str, ClaimedTurn] = {}
        async with self._transactions.begin() as transaction:
            connection = transaction.connection
            # Sessions first, as intake and take-over do: whoever locked a turn first could deadlock with them.
            await connection.execute(LOCK_SESSIONS, (sessions,))
            won = await self._write(transaction, finishing, leaving)
            if claim_following:
                claiming = await claim(connection, sessions, worker_id=self._worker_id, deadline=self._turn_deadline)
            ended = {turn_id: sequence for cursor in won for turn_id, sequence in await cursor.fetchall()}
            if tell:
                transaction.drafts.extend(_outcomes(finishing, ended))
            if claim_following:
                for turn, started in claimed_turns(await claiming.fetchall()):
                    following[turn.session_id] = turn
                    transaction.drafts.append(started)
        # Of two endings in one session the first starts what follows; nothing is started twice.
        return [
            CommitResult(ending.turn.id in ended, following.pop(ending.turn.session_id, None)) for ending in endings
        ]

    @staticmethod
    async def _write(
        transaction: Transaction, finishing: list[TurnOutcome], leaving: list[TurnOutcome]
    ) -> list[psycopg.AsyncCursor[Any]]:
        cursors = []
        if finishing:
            rows = as_json([_row(ending) for ending in finishing])
            cursors.append(await transaction.connection.execute(_FINISH, (rows,)))
        if leaving:
            held = ([e.turn.id for e in leaving], [e.turn.fence for e in leaving])
            cursors.append(await transaction.connection.execute(_RELEASE, held))
        return cursors


def _outcomes(finishing: list[TurnOutcome], ended: dict[str, int]) -> list[Any]:
    drafts = []
    for ending in finishing:
        last = ended.get(ending.turn.id)
        if last is None or ending.event is None:
            continue
        # The row took a number for each event; the outcome has the last.
        first = last - len(ending.leading)
        drafts += [turn_events.draft(ending.turn, event, first + i) for i, event in enumerate(ending.leading)]
        drafts.append(turn_events.draft(ending.turn, ending.event, last, ending.payload))
    return drafts


def _row(ending: TurnOutcome) -> dict[str, Any]:
    completed = ending.kind is OutcomeKind.COMPLETED
    return {
        "id": ending.turn.id,
        "fence": ending.turn.fence,
        "status": ending.kind.value,
        "message_id": ending.message_id,
        "content": ending.text if completed else None,
        "reply": orjson.Fragment(ending.payload) if completed and ending.payload is not None else None,
        "usage": ending.usage,
        "error": ending.error,
        "step": ending.final_step,
        "answer": ending.final_answer,
        "events": len(ending.leading) + 1,
    }
