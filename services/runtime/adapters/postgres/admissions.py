"""Takes submissions in: a batch is one transaction, under the locks of its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from libs.contracts.identifiers import new_id
from libs.eventing import EventDraft
from services.runtime.adapters.postgres.transactions import HotTransactions, as_json
from services.runtime.adapters.postgres.turn_rows import LIVE, identity_json
from services.runtime.domain import turn_events
from services.runtime.domain.admission import Admission, AdmissionView, Decide, Decision, Refusal, SessionState
from services.runtime.domain.agent_ports import AgentSpec
from services.runtime.domain.ports import RunAhead
from services.runtime.domain.turns import (
    AlreadyKnown,
    ClaimedTurn,
    IntakeResult,
    Refused,
    Submission,
    TakenIn,
)

# In the order of their ids: two batches that share sessions could deadlock otherwise.
_LOCK_SESSIONS: Final = """
    SELECT id, company_id, owner_id, status = 'active', next_position,
           CASE WHEN id = ANY(%s) THEN config::text END
    FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE
"""
# A statement of its own, after the locks: only then does its snapshot show what others did before they let go.
# A command that was refused has no turn: its recorded outcome says that it is known.
_SITUATION: Final = f"""
    SELECT 'known', id, 0 FROM turns WHERE id = ANY(%(turns)s)
    UNION ALL
    SELECT 'known', causation_id, 0 FROM outbox WHERE causation_id = ANY(%(turns)s) AND terminal
    UNION ALL
    SELECT 'session', session_id, count(*) FROM turns
    WHERE session_id = ANY(%(sessions)s) AND {LIVE} GROUP BY session_id
    UNION ALL
    SELECT 'company', company_id, count(*) FROM turns
    WHERE company_id = ANY(%(companies)s) AND {LIVE} GROUP BY company_id
"""
_ADMIT: Final = """
    WITH given AS (
        SELECT * FROM json_to_recordset(%(turns)s) AS g (
            id text, session_id text, company_id text, position integer, claimed boolean, identity json,
            correlation_id text, traceparent text, stream boolean, user_message_id text, content text, blocks json)
    ), moved AS (
        UPDATE sessions s SET next_position = s.next_position + n.admitted
        FROM (SELECT session_id, count(*) AS admitted FROM given GROUP BY session_id) n WHERE s.id = n.session_id
    ), said AS (
        INSERT INTO messages (session_id, position, id, turn_id, role, content, blocks)
        SELECT session_id, 2 * position, user_message_id, id, 'user', content, blocks FROM given
    )
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, worker_id, deadline, identity,
                       correlation_id, traceparent, stream, event_sequence, user_message_id, started_at)
    SELECT id, session_id, company_id, position, CASE WHEN claimed THEN 'running' ELSE 'queued' END,
           claimed::integer, claimed::integer, CASE WHEN claimed THEN %(worker)s END,
           CASE WHEN claimed THEN now() + make_interval(secs => %(deadline)s) END, identity,
           correlation_id, traceparent, stream, 1, user_message_id, CASE WHEN claimed THEN now() END
    FROM given
"""


class PostgresAdmissions:
    """A message's position is twice its turn's, the reply's one more: a reply stands right after its question."""

    def __init__(self, transactions: HotTransactions, *, worker_id: str, turn_deadline: float) -> None:
        self._transactions = transactions
        self._worker_id = worker_id
        self._turn_deadline = turn_deadline

    async def take_in(
        self, submissions: Sequence[Submission], decide: Decide, run_ahead: RunAhead
    ) -> list[IntakeResult]:
        async with self._transactions.begin() as transaction:
            view = await self._view(transaction.connection, submissions)
            decisions = decide(submissions, view)
            rows: list[dict[str, Any]] = []
            results = [self._carry_out(decision, rows, transaction.drafts) for decision in decisions]
            if rows:
                await transaction.connection.execute(
                    _ADMIT,
                    {"turns": as_json(rows), "worker": self._worker_id, "deadline": self._turn_deadline},
                )
            run_ahead(results)
        return results

    @staticmethod
    async def _view(connection: Any, submissions: Sequence[Submission]) -> AdmissionView:
        session_ids = list({submission.session_id for submission in submissions})
        # Configurations are large, and only for images does it matter here what the model can see.
        with_images = list({s.session_id for s in submissions if s.question.has_image})
        locked = await connection.execute(_LOCK_SESSIONS, (with_images, session_ids))
        situation = await connection.execute(
            _SITUATION,
            {
                "turns": [submission.turn_id for submission in submissions],
                "sessions": session_ids,
                "companies": list({submission.caller.company_id for submission in submissions}),
            },
        )
        sessions = {row[0]: _session(row) for row in await locked.fetchall()}
        known: set[str] = set()
        in_session: dict[str, int] = {}
        in_company: dict[str, int] = {}
        for what, key, number in await situation.fetchall():
            if what == "known":
                known.add(key)
            elif what == "session":
                in_session[key] = number
            else:
                in_company[key] = number
        return AdmissionView(sessions, frozenset(known), in_session, in_company)

    def _carry_out(self, decision: Decision, rows: list[dict[str, Any]], drafts: list[EventDraft]) -> IntakeResult:
        if isinstance(decision, Admission):
            return self._admit(decision, rows, drafts)
        if isinstance(decision, Refusal):
            drafts.append(turn_events.rejected(decision.submission, decision.error))
            return Refused(decision.error)
        return AlreadyKnown()

    def _admit(self, admission: Admission, rows: list[dict[str, Any]], drafts: list[EventDraft]) -> TakenIn:
        submission = admission.submission
        user_message_id = new_id()
        rows.append(_row(admission, user_message_id))
        if not admission.claimed:
            drafts.append(turn_events.queued(submission, admission.position, user_message_id))
            return TakenIn(None)
        claimed = ClaimedTurn(
            id=submission.turn_id,
            session_id=submission.session_id,
            position=admission.position,
            attempt=1,
            fence=1,
            user_message_id=user_message_id,
            caller=submission.caller,
            message_context=submission.message_context,
            stream=submission.stream,
            seconds_left=self._turn_deadline,
        )
        drafts.append(turn_events.started(claimed, turn_events.FIRST))
        return TakenIn(claimed)


def _session(row: tuple[Any, ...]) -> SessionState:
    agent = AgentSpec.from_config(orjson.loads(row[5])) if row[5] is not None else None
    return SessionState(row[0], row[1], row[2], row[3], row[4], agent)


def _row(admission: Admission, user_message_id: str) -> dict[str, Any]:
    submission = admission.submission
    return {
        "id": submission.turn_id,
        "session_id": submission.session_id,
        "company_id": submission.caller.company_id,
        "position": admission.position,
        "claimed": admission.claimed,
        "identity": orjson.Fragment(identity_json(submission.caller)),
        "correlation_id": submission.message_context.correlation_id,
        "traceparent": submission.message_context.traceparent,
        "stream": submission.stream,
        "user_message_id": user_message_id,
        "content": submission.question.text,
        "blocks": submission.blocks,
    }
