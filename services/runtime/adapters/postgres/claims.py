"""Claimed turns: claims of queued ones, one per idle session, and their worker's steps and outcomes.

A batch is one transaction. Every write of a worker is guarded by the turn's fencing token.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import orjson
import psycopg
import structlog
from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.contracts.api.sessions import TurnOptions
from libs.contracts.commands.runtime import ClientCalls
from libs.contracts.identity import Identity
from libs.contracts.messages import Draft, Event, MessageContext
from libs.eventing import Outbox
from libs.persistence import Connection, as_json
from services.runtime.adapters.postgres.budgets import charge
from services.runtime.adapters.postgres.spending import settle
from services.runtime.adapters.postgres.stored_replies import stored_reply
from services.runtime.adapters.postgres.suspensions import required_events, suspend
from services.runtime.domain.budgets import Charge, charge_of
from services.runtime.domain.spending import Prices, TurnSpending
from services.runtime.domain.turns import ClaimedTurn, CommitResult, OutcomeKind, StepRecord, TurnOutcome

_log = structlog.get_logger("runtime.turns")

LIVE: Final = "(status IN ('queued', 'running') OR worker_id IS NOT NULL)"
"""Queued, running, and cancelled turns whose execution has not stopped yet: the condition of ix_turns_live."""

CLAIMED_COLUMNS: Final = """
    t.id, t.session_id, t.position, t.attempt, t.fence, t.user_message_id, t.identity::text,
    t.company_id, t.correlation_id, t.traceparent, t.stream OR t.watches > 0,
    coalesce(extract(epoch FROM t.deadline - clock_timestamp()), 0)::float8, t.event_sequence,
    (SELECT owner_id FROM sessions WHERE id = t.session_id), t.options::text, t.client_calls::text,
    t.worked + coalesce(extract(epoch FROM clock_timestamp() - t.claimed_at), 0)::float8, t.whole_history
"""
CLAIMED_WIDTH: Final = 18
# In one order everywhere, so that two batches cannot wait for each other.
LOCK_SESSIONS: Final = "SELECT id FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
# For the reconciler: a transaction that has locked a session sees to its queue anyway.
LOCK_FREE_SESSIONS: Final = f"{LOCK_SESSIONS} SKIP LOCKED"
_CLAIM: Final = f"""
    UPDATE turns t
    -- A turn that goes on after a wait is in the same attempt, and has had its start event.
    SET status = 'running', worker_id = %(worker)s, fence = t.fence + 1, attempt = greatest(t.attempt, 1),
        started_at = coalesce(t.started_at, now()), claimed_at = now(),
        deadline = now() + make_interval(secs => %(deadline)s),
        event_sequence = t.event_sequence + (t.fence = 0)::integer
    FROM (
        SELECT DISTINCT ON (q.session_id) q.id FROM turns q
        WHERE q.session_id = ANY(%(sessions)s) AND q.status = 'queued'
          -- A cancelled turn whose worker has not let go of it yet may still write steps.
          AND NOT EXISTS (SELECT FROM turns r WHERE r.session_id = q.session_id
                          AND (r.status = 'running' OR r.worker_id IS NOT NULL))
          AND NOT EXISTS (SELECT FROM turns w WHERE w.session_id = q.session_id AND w.status = 'waiting')
        ORDER BY q.session_id, q.position
    ) lowest
    WHERE t.id = lowest.id
    RETURNING {CLAIMED_COLUMNS}
"""
_RECORD: Final = """
    WITH held AS (
        UPDATE turns t SET event_sequence = t.event_sequence + g.events
        FROM unnest(%(turns)s::text[], %(fences)s::integer[], %(events)s::integer[]) AS g (id, fence, events)
        WHERE t.id = g.id AND t.fence = g.fence AND t.status = 'running'
        RETURNING t.id, t.event_sequence
    ), kept AS (
        INSERT INTO steps (turn_id, number, call_id, kind, payload)
        SELECT s.turn_id, s.number, s.call_id, s.kind, s.payload
        FROM json_to_recordset(%(steps)s) AS s (
            turn_id text, number integer, call_id text, kind text, payload json)
        JOIN held ON held.id = s.turn_id
    )
    SELECT id, event_sequence FROM held
"""
# Fence and status decide: a worker whose turn was taken over or cancelled updates no row, and writes nothing.
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
        SELECT e.id, 1, 'answer', g.toolsets FROM ended e JOIN given g ON g.id = e.id WHERE g.toolsets IS NOT NULL
    )
    SELECT id, event_sequence, charged, followed FROM ended
"""
_FINISH: Final = _END.format(condition="")
# Nothing has to be done about these ends beside their events, whose numbers are as their worker has counted. Scalar
# queries, since a join would be planned as a scan of all turns.
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
    UPDATE turns t SET worker_id = NULL
    FROM unnest(%s::text[], %s::integer[]) AS g (id, fence)
    WHERE t.id = g.id AND t.fence = g.fence AND t.worker_id IS NOT NULL
    RETURNING t.id, t.event_sequence, false, true
"""
_OUTCOME_TAKEN: Final = "uq_outbox_outcome"
_TERMINAL: Final = frozenset({OutcomeKind.COMPLETED, OutcomeKind.FAILED})
_RELEASING: Final = frozenset({OutcomeKind.RELEASED, OutcomeKind.HANDED_BACK})


async def claim(
    connection: Connection, session_ids: Collection[str], *, worker_id: str, deadline: float
) -> AsyncCursor[TupleRow]:
    """Claims in sessions that the caller's transaction has locked; ``claimed_turns`` reads the result."""
    return await connection.execute(_CLAIM, {"sessions": list(session_ids), "worker": worker_id, "deadline": deadline})


def claimed_turns(rows: Sequence[tuple[Any, ...]]) -> tuple[list[ClaimedTurn], list[Draft]]:
    """Claimed turns, and the start events of those that have not run before."""
    turns = [claimed_turn(row) for row in rows]
    # Only a wait puts a turn that was claimed before back into the queue.
    turns = [replace(turn, after_wait=turn.fence > 1) for turn in turns]
    return turns, [turn.started() for turn in turns if not turn.after_wait]


def claimed_turn(row: tuple[Any, ...]) -> ClaimedTurn:
    """From the first CLAIMED_WIDTH columns of a row."""
    return ClaimedTurn(
        id=row[0],
        session_id=row[1],
        position=row[2],
        attempt=row[3],
        fence=row[4],
        user_message_id=row[5],
        caller=identity_from(row[6]),
        message_context=MessageContext(row[7], row[8], row[0], row[9], owner_id=row[13]),
        stream=row[10],
        seconds_left=row[11],
        sequence=row[12],
        options=None if row[14] is None else TurnOptions.model_validate_json(row[14]),
        client_calls=None if row[15] is None else ClientCalls.model_validate_json(row[15]),
        worked=row[16],
        whole_history=row[17],
    )


@lru_cache(maxsize=1024)
def identity_from(text: str) -> Identity:
    return Identity.model_validate_json(text)


@lru_cache(maxsize=1024)
def identity_json(identity: Identity) -> str:
    """The same text for the same identity, so that reading it back meets the cache."""
    return identity.model_dump_json()


class PostgresSteps:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def record_steps(self, steps: Sequence[StepRecord]) -> list[bool]:
        """False for a step whose turn is no longer held under its fencing token; a repeat is True."""
        try:
            return await self._record(steps)
        except psycopg.errors.UniqueViolation as problem:
            if len(steps) > 1 or problem.diag.constraint_name != "pk_steps":
                raise
            return [True]  # the commit whose answer was lost did take place

    async def _record(self, steps: Sequence[StepRecord]) -> list[bool]:
        turns = {step.turn.id: step.turn for step in steps}
        events = dict.fromkeys(turns, 0)
        for step in steps:
            events[step.turn.id] += len(step.events)
        async with self._outbox.pipelined() as transaction:
            cursor = await transaction.connection.execute(
                _RECORD,
                {
                    "turns": list(turns),
                    "fences": [turn.fence for turn in turns.values()],
                    "events": list(events.values()),
                    "steps": as_json([_step_row(step) for step in steps]),
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
    return [turn.draft(event, first + place) for place, event in enumerate(step.events)]


def _step_row(step: StepRecord) -> dict[str, Any]:
    columns = ("number", "call_id", "kind", "payload")
    return {"turn_id": step.turn.id, **{column: getattr(step, column) for column in columns}}


class PostgresTurnOutcomes:
    """``action_ttl``: seconds after which an action expires. ``prices`` are those that failed turns are settled at."""

    def __init__(
        self, outbox: Outbox, prices: Prices, *, worker_id: str, turn_deadline: float, action_ttl: float
    ) -> None:
        self._outbox = outbox
        self._prices = prices
        self._worker_id = worker_id
        self._turn_deadline = turn_deadline
        self._action_ttl = action_ttl
        # Companies whose turns are charged at their end. One without budgets any more pays with a round trip.
        self._with_budgets: set[str] = set()
        # Turns that have ended in a batch of which another part failed: their ends are committed again.
        self._unreported: set[str] = set()

    async def commit(self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]) -> list[CommitResult]:
        applied = self._unreported.intersection(outcome.turn.id for outcome in outcomes)
        if alone := [each for each in outcomes if each.turn.id not in applied and self._may_end_alone(each)]:
            applied |= await self._end_alone(alone)
        left = [outcome for outcome in outcomes if outcome.turn.id not in applied]
        try:
            results = iter(await self._commit_all(left, claim_in=claim_in) if left else ())
        except BaseException:
            self._unreported |= applied
            raise
        self._unreported -= applied
        return [CommitResult(applied=True) if each.turn.id in applied else next(results) for each in outcomes]

    def _may_end_alone(self, outcome: TurnOutcome) -> bool:
        return outcome.sequence is not None and outcome.turn.message_context.company_id not in self._with_budgets

    async def _end_alone(self, outcomes: Sequence[TurnOutcome]) -> frozenset[str]:
        """Ends, in one round trip, those of the turns whose end concerns nothing else; returns their ids."""
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
        # The command was given up while its turn ran: its one outcome stands, only the row is left to end.
        _log.error("turn.outcome_taken", turn_id=outcomes[0].turn.id)
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
            # Sessions first, like admission and take-over: locking a turn first could deadlock with them.
            await connection.execute(LOCK_SESSIONS, (sessions,))
            written = await _end(connection, outcomes, terminal)
            suspending = await suspend(connection, waiting, ttl=self._action_ttl) if waiting else None
            ended = [row for cursor in written for row in await cursor.fetchall()]
            # In most sessions nothing waits, and looking closer would cost as much as the end of the turn.
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
        # Of two outcomes in one session the first starts the next turn; nothing is started twice.
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
    released = [outcome.turn for outcome in outcomes if outcome.kind in _RELEASING]
    if released:
        held = ([turn.id for turn in released], [turn.fence for turn in released])
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
        # The row took a number for each event; the terminal one has the last.
        first = last - len(outcome.preceding)
        drafts += [outcome.turn.draft(event, first + place) for place, event in enumerate(outcome.preceding)]
        drafts.append(outcome.turn.draft(_with_spending(outcome, spent), last, outcome.payload))
    return drafts


def _with_spending(outcome: TurnOutcome, spent: Mapping[str, TurnSpending]) -> Event:
    """The event with the usage of a failed turn, which is known only now."""
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
