"""Commits outcomes of claimed turns in batches, and claims the sessions' next turns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import orjson
import psycopg
import structlog
from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.contracts.messages import Draft, Event
from libs.eventing import Outbox
from libs.persistence import Connection, as_json
from services.runtime.adapters.postgres.budgets import charge
from services.runtime.adapters.postgres.claims import LOCK_SESSIONS, claim, claimed_turns
from services.runtime.adapters.postgres.spending import settle
from services.runtime.adapters.postgres.waits import required_events, suspend
from services.runtime.domain.budgets import Charge, charge_of
from services.runtime.domain.models import Prices, TurnSpending
from services.runtime.domain.turns import RELEASING, ClaimedTurn, CommitResult, OutcomeKind, TurnOutcome, stored_reply

_log = structlog.get_logger("runtime.turns")
# The fencing token and status are checked, so a worker whose turn was taken over or cancelled writes nothing.
_END: Final = """
    WITH given AS (
        SELECT * FROM json_to_recordset(%s) AS g (
            id text, fence integer, status text, message_id text, content text, reply json, usage json,
            error json, toolsets json, events integer, sequence bigint)
    ), ended AS (
        UPDATE turns t
        SET status = g.status, worker_id = NULL, message_id = g.message_id, reply = g.reply, usage = g.usage,
            error = g.error, finished_at = now(), event_sequence = t.event_sequence + g.events
        FROM given g WHERE t.id = g.id AND t.fence = g.fence AND t.status = 'running' {condition}
        RETURNING t.id, t.session_id, t.position, t.event_sequence,
                  EXISTS (SELECT FROM budgets b WHERE b.company_id = t.company_id) AS charged,
                  EXISTS (SELECT FROM turns q WHERE q.session_id = t.session_id AND q.status = 'queued') AS followed
    ), said AS (
        INSERT INTO messages (session_id, position, id, turn_id, role, content)
        SELECT e.session_id, 2 * e.position + 1, g.message_id, e.id, 'assistant', g.content
        FROM ended e JOIN given g ON g.id = e.id WHERE g.message_id IS NOT NULL
    ), stepped AS (
        INSERT INTO steps (turn_id, number, kind, payload)
        SELECT e.id, 1, 'model', g.toolsets FROM ended e JOIN given g ON g.id = e.id WHERE g.toolsets IS NOT NULL
    )
    SELECT id, event_sequence, charged, followed FROM ended
"""
_FINISH: Final = _END.format(condition="")
# The fast path for a turn without a next turn or budget, if its event sequence is the one that the worker expects.
# Scalar queries are used, because PostgreSQL would plan a join as a scan of all turns.
_FINISH_ALONE: Final = _END.format(
    condition="""
          AND t.event_sequence = g.sequence
          AND (SELECT b.company_id FROM budgets b WHERE b.company_id = t.company_id LIMIT 1) IS NULL
          AND (SELECT q.id FROM turns q WHERE q.session_id = t.session_id AND q.status = 'queued' LIMIT 1) IS NULL
    """
)
_ENDED_HERE: Final = """
    (SELECT t.status FROM turns t WHERE t.id = given.subject AND t.xmin = pg_current_xact_id()::xid) = 'completed'
"""
_RELEASE: Final = """
    UPDATE turns t SET worker_id = NULL, lost_attempts = t.lost_attempts + g.lost
    FROM unnest(%s::text[], %s::integer[], %s::integer[]) AS g (id, fence, lost)
    WHERE t.id = g.id AND t.fence = g.fence AND t.worker_id IS NOT NULL
    RETURNING t.id, t.event_sequence, false, true
"""
_OUTCOME_TAKEN: Final = "uq_outbox_outcome"
_TERMINAL: Final = frozenset({OutcomeKind.COMPLETED, OutcomeKind.FAILED})


class PostgresTurnOutcomes:
    """Commits the outcomes of turns. ``action_ttl`` is the time in seconds until an action expires."""

    def __init__(
        self, outbox: Outbox, prices: Prices, *, worker_id: str, turn_deadline: float, action_ttl: float
    ) -> None:
        self._outbox = outbox
        self._prices = prices
        self._worker_id = worker_id
        self._turn_deadline = turn_deadline
        self._action_ttl = action_ttl
        # Companies whose turns are charged when they end. A company without budgets only costs an extra round trip.
        self._with_budgets: set[str] = set()

    async def commit(
        self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]
    ) -> Sequence[CommitResult | Exception]:
        alone = [outcome for outcome in outcomes if self._may_end_alone(outcome)]
        ended = await self._end_alone(alone) if alone else frozenset()
        left = [outcome for outcome in outcomes if outcome.turn.id not in ended]
        results: Iterator[CommitResult | Exception]
        try:
            results = iter(await self._commit_all(left, claim_in=claim_in) if left else ())
        except Exception as problem:
            if not ended:
                raise
            # The turns on the fast path are committed, so only the other outcomes have failed.
            results = repeat(problem)
        return [CommitResult(applied=True) if each.turn.id in ended else next(results) for each in outcomes]

    def _may_end_alone(self, outcome: TurnOutcome) -> bool:
        return outcome.sequence is not None and outcome.turn.message_context.company_id not in self._with_budgets

    async def _end_alone(self, outcomes: Sequence[TurnOutcome]) -> frozenset[str]:
        """Ends turns in one round trip, unless the session has a next turn or the company has a budget.

        Returns the IDs of the ended turns.
        """
        try:
            async with self._outbox.pipelined(recording_where=_ENDED_HERE) as transaction:
                connection = transaction.connection
                await connection.execute(LOCK_SESSIONS, (list({each.turn.session_id for each in outcomes}),))
                rows = as_json([_outcome_row(outcome) for outcome in outcomes])
                ended = await connection.execute(_FINISH_ALONE, (rows,))
                counted = {each.turn.id: (each.sequence or 0) + len(each.preceding) + 1 for each in outcomes}
                transaction.drafts.extend(_outcome_events(outcomes, counted, {}))
        except psycopg.errors.UniqueViolation as problem:
            if problem.diag.constraint_name != _OUTCOME_TAKEN:
                raise
            return frozenset()
        return frozenset(row[0] for row in await ended.fetchall())

    async def _commit_all(self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]) -> list[CommitResult]:
        try:
            return await self._commit(outcomes, claim_in=claim_in, with_events=True)
        except psycopg.errors.UniqueViolation as problem:
            if len(outcomes) > 1 or problem.diag.constraint_name != _OUTCOME_TAKEN:
                raise
        # The command was dead-lettered while its turn was running. That outcome is final, so only the row is updated.
        _log.error("turn.outcome_exists", turn_id=outcomes[0].turn.id)
        return await self._commit(outcomes, claim_in=claim_in, with_events=False)

    async def _commit(
        self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str], with_events: bool
    ) -> list[CommitResult]:
        terminal = [outcome for outcome in outcomes if outcome.kind in _TERMINAL]
        waiting = [outcome for outcome in outcomes if outcome.kind is OutcomeKind.WAITING]
        sessions = list({outcome.turn.session_id for outcome in outcomes})
        next_turns: dict[str, ClaimedTurn] = {}
        async with self._outbox.pipelined() as transaction:
            connection = transaction.connection
            # Lock sessions first, as admission and takeover do. Locking a turn first could deadlock with them.
            await connection.execute(LOCK_SESSIONS, (sessions,))
            written = await _end(connection, outcomes, terminal)
            suspending = await suspend(connection, waiting, ttl=self._action_ttl) if waiting else None
            ended = [row for cursor in written for row in await cursor.fetchall()]
            # Most sessions don't have a queued turn, and a claim would cost as much as ending the turn.
            followed = {row[0] for row in ended if row[3]}
            claim_in = {o.turn.session_id for o in outcomes if o.turn.id in followed}.intersection(claim_in)
            if claim_in:
                claiming = await claim(connection, claim_in, worker_id=self._worker_id, deadline=self._turn_deadline)
            applied = {row[0]: row[1] for row in ended}
            failed = {o.turn.id: o.usage for o in terminal if o.kind is OutcomeKind.FAILED and o.turn.id in applied}
            spent = await settle(connection, failed, self._prices) if failed else {}
            if with_events:
                transaction.drafts.extend(_outcome_events(terminal, applied, spent))
            if charged := {row[0] for row in ended if row[2]}:
                self._with_budgets.update(o.turn.message_context.company_id for o in terminal if o.turn.id in charged)
                await charge(transaction, _charges([o for o in terminal if o.turn.id in charged], spent))
            if suspending is not None:
                suspended = {row[0]: row for row in await suspending.fetchall()}
                applied.update((turn_id, row[1]) for turn_id, row in suspended.items())
                transaction.drafts.extend(required_events(waiting, suspended))
            if claim_in:
                claimed, started = claimed_turns(await claiming.fetchall())
                next_turns = {turn.session_id: turn for turn in claimed}
                transaction.drafts.extend(started)
        # If two outcomes belong to one session, the first one starts the next turn. No turn is started twice.
        return [
            CommitResult(outcome.turn.id in applied, next_turns.pop(outcome.turn.session_id, None))
            for outcome in outcomes
        ]


async def _end(
    connection: Connection, outcomes: Sequence[TurnOutcome], terminal: Sequence[TurnOutcome]
) -> list[AsyncCursor[TupleRow]]:
    cursors = []
    if terminal:
        cursors.append(await connection.execute(_FINISH, (as_json([_outcome_row(outcome) for outcome in terminal]),)))
    released = [outcome for outcome in outcomes if outcome.kind in RELEASING]
    if released:
        lost = [int(outcome.kind is OutcomeKind.CRASHED) for outcome in released]
        held = ([each.turn.id for each in released], [each.turn.fence for each in released], lost)
        cursors.append(await connection.execute(_RELEASE, held))
    return cursors


def _outcome_events(
    terminal: Sequence[TurnOutcome], applied: dict[str, int], spent: Mapping[str, TurnSpending]
) -> list[Draft]:
    drafts = []
    for outcome in terminal:
        last = applied.get(outcome.turn.id)
        if last is None or outcome.event is None:
            continue
        # The update has reserved a sequence number for each event. The terminal event has the last one.
        first = last - len(outcome.preceding)
        drafts += [outcome.turn.draft(event, first + index) for index, event in enumerate(outcome.preceding)]
        drafts.append(outcome.turn.draft(_with_spending(outcome, spent), last, outcome.payload, outcome.cause))
    return drafts


def _with_spending(outcome: TurnOutcome, spent: Mapping[str, TurnSpending]) -> Event:
    """Returns the outcome's event. A failed turn's event gets the usage that was computed in this transaction."""
    assert outcome.event is not None
    of_turn = spent.get(outcome.turn.id)
    if of_turn is None:
        return outcome.event
    return outcome.event.model_copy(update={"usage": of_turn.usage, **of_turn.attribution.model_dump()})


def _charges(ended: Sequence[TurnOutcome], spent: Mapping[str, TurnSpending]) -> list[Charge]:
    charges = []
    for outcome in ended:
        turn, of_turn = outcome.turn, spent.get(outcome.turn.id)
        usage = outcome.usage if of_turn is None else of_turn.usage
        if usage is not None:
            charges.append(charge_of(usage, turn.caller.user_id, turn.caller.key_id, turn.message_context))
    return charges


def _outcome_row(outcome: TurnOutcome) -> dict[str, Any]:
    completed = outcome.kind is OutcomeKind.COMPLETED
    return {
        "id": outcome.turn.id,
        "fence": outcome.turn.fence,
        "status": outcome.kind.value,
        "message_id": outcome.message_id,
        "content": outcome.text if completed else None,
        "reply": orjson.Fragment(stored_reply(outcome.payload)) if completed and outcome.payload is not None else None,
        "usage": outcome.usage.model_dump() if completed and outcome.usage is not None else None,
        "error": outcome.error,
        "toolsets": outcome.toolsets,
        "events": len(outcome.preceding) + 1,
        "sequence": outcome.sequence,
    }
