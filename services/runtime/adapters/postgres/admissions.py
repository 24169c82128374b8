"""Admits submitted turns in batches, each in one transaction that locks the sessions."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from libs.eventing import Outbox, Transaction
from libs.persistence import Connection, as_json
from libs.quotas import CompanyAmounts
from services.runtime.adapters.postgres.budgets import IS_EXHAUSTED, exhausted
from services.runtime.adapters.postgres.claims import LIVE, identity_json
from services.runtime.adapters.postgres.session_reads import blocked_sessions
from services.runtime.adapters.postgres.session_writer import SESSIONS, add_messages, add_sessions
from services.runtime.domain.admission import AdmissionView, Admitted, Decision, Excess, Refused, SessionState
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.beginnings import NewSession
from services.runtime.domain.turns import FIRST_SEQUENCE, ClaimedTurn, Submission

# Rows are locked in ID order, so that batches with common sessions can't deadlock.
_LOCK_SESSIONS: Final = """
    SELECT id, company_id, owner_id, status = 'active', next_position,
           CASE WHEN id = ANY(%s) THEN config::text END
    FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE
"""
# A separate statement after the locks, so that its snapshot includes the commits of other transactions. A rejected
# command has no turn, so it's recognized by its recorded outcome.
_SITUATION: Final = f"""
    SELECT 'known', id, 0 FROM turns WHERE id = ANY(%(turns)s)
    UNION ALL
    SELECT 'known', causation_id, 0 FROM outbox WHERE causation_id = ANY(%(turns)s) AND terminal
    UNION ALL
    SELECT 'session', session_id, count(*) FROM turns
    WHERE session_id = ANY(%(sessions)s) AND {LIVE} GROUP BY session_id
    UNION ALL
    SELECT 'waiting', session_id, 1 FROM turns WHERE session_id = ANY(%(sessions)s) AND status = 'waiting'
    UNION ALL
    SELECT 'company', company_id, count(*) FROM turns
    WHERE company_id = ANY(%(companies)s) AND {LIVE} GROUP BY company_id
    UNION ALL
    SELECT 'exhausted', company_id, 1 FROM budgets WHERE company_id = ANY(%(companies)s) AND {IS_EXHAUSTED}
"""
_ADMIT: Final = """
    WITH given AS (
        SELECT * FROM json_to_recordset(%(turns)s) AS g (
            id text, session_id text, company_id text, position integer, claimed boolean, identity json,
            correlation_id text, traceparent text, request json, user_message_id text, content text, blocks json)
    ), moved AS (
        UPDATE sessions s SET next_position = s.next_position + n.admitted
        FROM (SELECT session_id, count(*) AS admitted FROM given GROUP BY session_id) n WHERE s.id = n.session_id
    ), said AS (
        INSERT INTO messages (session_id, position, id, turn_id, role, content, blocks)
        SELECT session_id, 2 * position, user_message_id, id, 'user', content, blocks FROM given
    )
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, worker_id, deadline, identity,
                       correlation_id, traceparent, request, event_sequence, user_message_id, started_at, claimed_at)
    SELECT id, session_id, company_id, position, CASE WHEN claimed THEN 'running' ELSE 'queued' END,
           claimed::integer, claimed::integer, CASE WHEN claimed THEN %(worker)s END,
           CASE WHEN claimed THEN now() + make_interval(secs => %(deadline)s) END, identity,
           correlation_id, traceparent, request, 1, user_message_id, CASE WHEN claimed THEN now() END,
           CASE WHEN claimed THEN now() END
    FROM given
"""
# For sessions whose only turn was rejected in the transaction that added them.
_NEVER_BEGUN: Final = "DELETE FROM sessions WHERE id = ANY(%s)"


@dataclass(frozen=True, slots=True)
class PostgresAdmissions:
    """Opens admission batches. The turn at position n of a session has its messages at positions 2n and 2n + 1."""

    outbox: Outbox
    amounts: CompanyAmounts
    worker_id: str
    turn_deadline: float

    @asynccontextmanager
    async def open(self, submissions: Sequence[Submission]) -> AsyncIterator["PostgresAdmissionBatch"]:
        beginnings: dict[str, NewSession] = {}
        for submission in submissions:
            if submission.begins is not None:
                beginnings.setdefault(submission.session_id, submission.begins)
        async with self.outbox.pipelined() as transaction:
            # Add sessions before locking existing ones: a transaction that waits here must not hold a session lock.
            adding = await add_sessions(transaction.connection, beginnings.values()) if beginnings else None
            view = await _view(transaction.connection, submissions)
            added = [] if adding is None else [beginnings[row[0]] for row in await adding.fetchall()]
            if added:
                companies = {session.company_id for session in added}
                excess = await self.amounts.excess(transaction.connection, companies, SESSIONS)
                view = replace(view, excess={id: Excess(each.by, each.error) for id, each in excess.items()})
            yield PostgresAdmissionBatch(transaction, view, added, self.worker_id, self.turn_deadline)


@dataclass(slots=True)
class PostgresAdmissionBatch:
    transaction: Transaction
    view: AdmissionView
    begun: Sequence[NewSession]
    worker_id: str
    turn_deadline: float

    async def write(self, decisions: Sequence[Decision]) -> list[ClaimedTurn]:
        admitted = [decision for decision in decisions if isinstance(decision, Admitted)]
        if self.begun:
            await self._keep_begun({decision.submission.session_id: decision.submission for decision in admitted})
        claimed = {each.submission.turn_id: self._claimed(each) for each in admitted if each.claimed}
        for decision in decisions:
            submission = decision.submission
            if isinstance(decision, Refused):
                self.transaction.drafts.append(submission.rejected(decision.error))
            elif isinstance(decision, Admitted):
                turn = claimed.get(submission.turn_id)
                draft = (
                    turn.started()
                    if turn
                    else submission.queued(decision.position, self.view.blocked_by.get(submission.session_id))
                )
                self.transaction.drafts.append(draft)
        if admitted:
            turns = as_json([_row(each) for each in admitted])
            parameters = {"turns": turns, "worker": self.worker_id, "deadline": self.turn_deadline}
            await self.transaction.connection.execute(_ADMIT, parameters)
        return list(claimed.values())

    async def _keep_begun(self, first: Mapping[str, Submission]) -> None:
        """Emits ``session.created`` for new sessions with an admitted turn, and deletes the other new sessions."""
        refused = [session.id for session in self.begun if session.id not in first]
        if refused:
            await self.transaction.connection.execute(_NEVER_BEGUN, (refused,))
        self.begun = [session for session in self.begun if session.id in first]
        await add_messages(self.transaction.connection, self.begun)
        for session in self.begun:
            # With a command as the cause, this event would count as the outcome of that command, here ExecuteTurn.
            context = replace(first[session.id].message_context, causation_id=None)
            self.transaction.emit(session.created(), subject=session.id, owner_id=session.owner_id, context=context)

    def _claimed(self, admitted: Admitted) -> ClaimedTurn:
        submission = admitted.submission
        return ClaimedTurn(
            id=submission.turn_id,
            session_id=submission.session_id,
            position=admitted.position,
            attempt=1,
            fence=1,
            user_message_id=submission.user_message_id,
            caller=submission.caller,
            message_context=submission.message_context,
            request=submission.request,
            stream=submission.request.stream,
            seconds_left=self.turn_deadline,
            sequence=FIRST_SEQUENCE,
        )


async def _view(connection: Connection, submissions: Sequence[Submission]) -> AdmissionView:
    session_ids = list({submission.session_id for submission in submissions})
    # Configurations are large, and only submissions with images or options depend on them.
    with_agents = list({s.session_id for s in submissions if s.depends_on_agent})
    locked = await connection.execute(_LOCK_SESSIONS, (with_agents, session_ids))
    situation = await connection.execute(
        _SITUATION,
        {
            "turns": [submission.turn_id for submission in submissions],
            "sessions": session_ids,
            "companies": list({submission.caller.company_id for submission in submissions}),
        },
    )
    sessions = {row[0]: _session(row) for row in await locked.fetchall()}
    found: dict[str, dict[str, int]] = {"known": {}, "session": {}, "waiting": {}, "company": {}, "exhausted": {}}
    for what, key, number in await situation.fetchall():
        found[what][key] = found[what].get(key, 0) + number
    # The budgets' details are only read for turns that will be rejected.
    used_up = await exhausted(connection, list(found["exhausted"])) if found["exhausted"] else ()
    # Read the details of waiting sessions only, since there are few of them.
    blocked = await blocked_sessions(connection, list(found["waiting"])) if found["waiting"] else {}
    live = {id: found["session"].get(id, 0) + found["waiting"].get(id, 0) for id in session_ids}
    return AdmissionView(sessions, frozenset(found["known"]), live, found["company"], used_up, blocked_by=blocked)


def _session(row: tuple[Any, ...]) -> SessionState:
    agent = AgentSpec.from_config(orjson.loads(row[5])) if row[5] is not None else None
    return SessionState(row[0], row[1], row[2], row[3], row[4], agent)


def _row(admitted: Admitted) -> dict[str, Any]:
    submission = admitted.submission
    return {
        "id": submission.turn_id,
        "session_id": submission.session_id,
        "company_id": submission.caller.company_id,
        "position": admitted.position,
        "claimed": admitted.claimed,
        "identity": orjson.Fragment(identity_json(submission.caller)),
        "correlation_id": submission.message_context.correlation_id,
        "traceparent": submission.message_context.traceparent,
        "request": orjson.Fragment(submission.request.model_dump_json(exclude_defaults=True)),
        "user_message_id": submission.user_message_id,
        "content": submission.question.text,
        "blocks": submission.blocks,
    }
