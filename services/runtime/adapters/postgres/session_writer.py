"""Writes sessions and cancellations in the caller's transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.contracts.errors import Conflict
from libs.contracts.identifiers import new_id
from libs.contracts.messages import MessageContext
from libs.contracts.resources import messages as api
from libs.contracts.resources.sessions import ForkSession, SessionCreated
from libs.eventing import CommandRouter, Outbox, Transaction
from libs.json_text import read_json
from libs.persistence import Connection, Parameters, as_json, fetch_records, fetch_value
from libs.quotas import CompanyAmounts
from services.runtime.adapters.postgres.budgets import charge
from services.runtime.adapters.postgres.claims import LIVE
from services.runtime.adapters.postgres.session_reads import message_of
from services.runtime.adapters.postgres.spending import settle
from services.runtime.domain.beginnings import NewSession, count_positions
from services.runtime.domain.budgets import charge_of
from services.runtime.domain.conversation import Message
from services.runtime.domain.conversation_json import message_to_row
from services.runtime.domain.models import Prices, TurnSpending
from services.runtime.domain.sessions import ForkPoint, LockedSession, SessionCreation
from services.runtime.domain.turns import LockedTurn

T = TypeVar("T")

# A redelivered command may arrive after the session was created, used and deleted.
_ADD: Final = """
    INSERT INTO sessions (id, company_id, owner_id, agent_id, config, config_hash, next_position, listed, expires_at,
                          metadata)
    SELECT id, company_id, owner_id, agent_id, config, config_hash, next_position, listed,
           now() + make_interval(secs => expires_after), metadata
    FROM json_to_recordset(%s) AS g (
        id text, company_id text, owner_id text, agent_id text, config json, config_hash text, next_position integer,
        listed boolean, expires_after integer, metadata json)
    WHERE NOT EXISTS (SELECT FROM session_tombstones t WHERE t.id = g.id)
    ORDER BY id ON CONFLICT (id) DO NOTHING RETURNING id
"""
# Initial messages have consecutive positions, whereas each turn's position stands for two messages.
_ADD_MESSAGES: Final = """
    INSERT INTO messages (session_id, position, id, turn_id, role, content, blocks)
    SELECT session_id, position, id, '', role, content, blocks FROM json_to_recordset(%s) AS g (
        session_id text, position integer, id text, role text, content text, blocks json)
"""
_APPEND_MESSAGES: Final = """
    WITH moved AS (
        UPDATE sessions SET next_position = next_position + %(places)s WHERE id = %(session)s
        RETURNING 2 * (next_position - %(places)s) AS first
    )
    INSERT INTO messages (session_id, position, id, turn_id, role, content, blocks)
    SELECT %(session)s, m.first + g.position, g.id, '', g.role, g.content, g.blocks
    FROM moved m CROSS JOIN json_to_recordset(%(messages)s) AS g (
        position integer, id text, role text, content text, blocks json)
    ORDER BY g.position
    RETURNING id, role, content, created_at AS timestamp, blocks::text AS content_blocks
"""
_ADDED: Final = (
    "id", "company_id", "owner_id", "agent_id", "config", "config_hash", "next_position", "listed", "expires_after",
    "metadata",
)  # fmt: skip
# Either a turn of this session, or an ended turn whose messages were copied by a fork.
_FORK_POINT: Final = """
    SELECT m.position / 2, t.id IS NULL OR t.finished_at IS NOT NULL,
           NOT EXISTS (SELECT FROM turns b WHERE b.session_id = m.session_id AND b.position < m.position / 2
                       AND b.finished_at IS NULL)
    FROM messages m LEFT JOIN turns t ON t.id = m.turn_id AND t.session_id = m.session_id
    WHERE m.session_id = %s AND m.turn_id = %s LIMIT 1
"""
SESSIONS: Final = "sessions"
_LONGEST_LINEAGE: Final = 20
# A single statement sees a consistent state of the source without a lock. Turns are renumbered without gaps, because
# failed and cancelled turns are skipped.
_FORK: Final = f"""
    WITH source AS (
        SELECT id, company_id, agent_id, config, config_hash, lineage FROM sessions
        WHERE id = %(source_id)s AND status = 'active'
          AND NOT EXISTS (SELECT FROM session_tombstones WHERE id = %(id)s)
    ), kept AS (
        SELECT m.position, m.id, m.turn_id, m.role, m.content, m.blocks, m.created_at,
               (dense_rank() OVER (ORDER BY m.position / 2))::integer - 1 AS turn
        FROM messages m JOIN source s ON s.id = m.session_id
        LEFT JOIN turns t ON t.id = m.turn_id AND t.session_id = m.session_id
        WHERE (t.id IS NULL OR t.status = 'completed')
          AND (%(through)s::integer IS NULL OR m.position / 2 <= %(through)s)
    ), forked AS (
        INSERT INTO sessions (id, company_id, owner_id, agent_id, config, config_hash, next_position, lineage, listed,
                              expires_at)
        SELECT %(id)s, company_id, %(owner_id)s, agent_id, config, config_hash,
               (SELECT coalesce(max(turn) + 1, 0) FROM kept), (ARRAY[id] || lineage)[1:{_LONGEST_LINEAGE}],
               %(listed)s, now() + make_interval(secs => %(expires_after)s)
        FROM source
        ON CONFLICT (id) DO NOTHING RETURNING id, agent_id, config_hash
    ), copied AS (
        INSERT INTO messages (session_id, position, id, turn_id, role, content, blocks, created_at)
        SELECT f.id, 2 * k.turn + k.position %% 2, md5(f.id || k.id)::uuid::text, k.turn_id, k.role, k.content,
               k.blocks, k.created_at
        FROM kept k CROSS JOIN forked f
    )
    SELECT agent_id, config_hash FROM forked
"""
_FIND: Final = "SELECT id, company_id, owner_id, status = 'active' FROM sessions WHERE id = %s"
_LOCK: Final = f"{_FIND} FOR UPDATE"
_TURN_COLUMNS: Final = """
    id, session_id, status, company_id, correlation_id, traceparent, event_sequence,
    (SELECT owner_id FROM sessions WHERE sessions.id = session_id)
"""
_TURN: Final = f"SELECT {_TURN_COLUMNS} FROM turns WHERE id = %s AND session_id = %s FOR UPDATE"
_LIVE_TURNS: Final = f"""
    SELECT {_TURN_COLUMNS} FROM turns
    WHERE session_id = %s AND (status IN ('queued', 'running') OR status = 'waiting')
    ORDER BY position FOR UPDATE
"""
_WAITING_TURNS: Final = f"""
    SELECT {_TURN_COLUMNS} FROM turns WHERE session_id = ANY(%s) AND status = 'waiting' ORDER BY id FOR UPDATE
"""
# Sessions that another process or a command has locked are left to the next pass.
_LOCK_EXPIRED: Final = f"""
    SELECT id, company_id, owner_id, true FROM sessions s
    WHERE expires_at <= now() AND status = 'active'
      AND NOT EXISTS (SELECT FROM turns WHERE session_id = s.id AND {LIVE})
    ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED
"""
_BUSY: Final = f"SELECT DISTINCT session_id FROM turns WHERE session_id = ANY(%s) AND {LIVE}"
_CANCEL: Final = """
    WITH cancelled AS (
        UPDATE turns SET status = 'cancelled', finished_at = now(), event_sequence = event_sequence + %s
        WHERE id = ANY(%s) AND status IN ('queued', 'running', 'waiting') RETURNING id
    )
    UPDATE waits SET state = 'closed', resolved_at = now()
    WHERE turn_id IN (SELECT id FROM cancelled) AND state = 'open'
"""
_MARK_DELETING: Final = "UPDATE sessions SET status = 'deleting', deletion = %s WHERE id = %s"
_SET_METADATA: Final = "UPDATE sessions SET metadata = %s WHERE id = %s"
_SET_AGENT: Final = """
    UPDATE sessions SET agent_id = %(agent_id)s, config = %(config)s, config_hash = %(config_hash)s
    WHERE id = %(id)s AND config_hash = '' AND NOT EXISTS (SELECT FROM turns WHERE session_id = %(id)s) RETURNING id
"""
_IS_HELD: Final = """
    SELECT EXISTS (SELECT FROM turns WHERE session_id = %s AND (worker_id IS NOT NULL OR status = 'running'))
"""
_DELETION: Final = "SELECT deletion::text FROM sessions WHERE id = %s AND status = 'deleting' FOR UPDATE"
_WAS_DELETED: Final = "SELECT EXISTS (SELECT FROM session_tombstones WHERE id = %s AND company_id = %s)"
_REMOVE: Final = (
    "DELETE FROM waits WHERE turn_id IN (SELECT id FROM turns WHERE session_id = ANY(%s))",
    "DELETE FROM steps WHERE turn_id IN (SELECT id FROM turns WHERE session_id = ANY(%s))",
    "DELETE FROM messages WHERE session_id = ANY(%s)",
    "DELETE FROM turns WHERE session_id = ANY(%s)",
    """
    WITH gone AS (DELETE FROM sessions WHERE id = ANY(%s) RETURNING id, company_id)
    INSERT INTO session_tombstones (id, company_id) SELECT id, company_id FROM gone
    """,
)


class PostgresSessionWriter:
    """Changes sessions in the caller's transaction. ``prices`` sets the cost of cancelled turns."""

    def __init__(self, transaction: Transaction, prices: Prices, amounts: CompanyAmounts) -> None:
        self._transaction = transaction
        self._connection = transaction.connection
        self._prices = prices
        self._amounts = amounts

    async def check_quota(self, company_id: str) -> None:
        """Raises QuotaExceeded if the company has reached its session limit."""
        await self._amounts.check(self._connection, company_id, {SESSIONS: 1})

    async def fork_point(self, session_id: str, turn_id: str) -> ForkPoint | None:
        """Returns the turn's position in the session, or None if the session contains none of the turn's messages."""
        return await self._one(ForkPoint, _FORK_POINT, (session_id, turn_id))

    async def fork(self, command: ForkSession, owner_id: str, through: int | None) -> SessionCreated | None:
        """Adds the session with the completed turns' messages. Returns None if the ID or the source can't be used.

        ``through`` is the position of the last turn to copy, or None to copy all turns.
        """
        cursor = await self._connection.execute(
            _FORK,
            {
                "id": command.session_id,
                "source_id": command.source_session_id,
                "owner_id": owner_id,
                "through": through,
                "listed": command.listed,
                "expires_after": command.expires_after,
            },
        )
        row = await cursor.fetchone()
        if row is None:
            return None
        agent_id, config_hash = row
        return SessionCreated(
            session_id=command.session_id,
            config_hash=config_hash,
            agent_id=agent_id,
            owner_id=owner_id,
            forked_from=command.source_session_id,
            listed=command.listed,
        )

    async def find(self, session_id: str) -> LockedSession | None:
        """Returns the session without locking it."""
        return await self._one(LockedSession, _FIND, (session_id,))

    async def lock(self, session_id: str) -> LockedSession | None:
        return await self._one(LockedSession, _LOCK, (session_id,))

    async def turn(self, session_id: str, turn_id: str) -> LockedTurn | None:
        """Returns the session's turn, which may change unless the session is locked."""
        return await self._one(_turn, _TURN, (turn_id, session_id))

    async def live_turns(self, session_id: str) -> list[LockedTurn]:
        """Returns the session's queued, running and waiting turns, in order."""
        cursor = await self._connection.execute(_LIVE_TURNS, (session_id,))
        return [_turn(*row) for row in await cursor.fetchall()]

    async def lock_expired(self, limit: int) -> list[LockedSession]:
        """Locks and returns expired sessions without a queued or running turn, earliest expiry first."""
        locked = await (await self._connection.execute(_LOCK_EXPIRED, (limit,))).fetchall()
        if not locked:
            return []
        # Check again in a separate statement, since a turn may have been admitted just before the locks.
        cursor = await self._connection.execute(_BUSY, ([row[0] for row in locked],))
        busy = {row[0] for row in await cursor.fetchall()}
        return [LockedSession(*row) for row in locked if row[0] not in busy]

    async def waiting_turns(self, session_ids: Sequence[str]) -> list[LockedTurn]:
        cursor = await self._connection.execute(_WAITING_TURNS, (list(session_ids),))
        return [_turn(*row) for row in await cursor.fetchall()]

    async def cancel(self, turns: list[LockedTurn], events: int) -> dict[str, TurnSpending]:
        """Cancels live turns and closes their waits. Returns each turn's usage so far, by turn ID.

        Each turn reserves ``events`` event numbers. A running turn keeps its worker until its execution has stopped.
        """
        if not turns:
            return {}
        await self._connection.execute(_CANCEL, (events, [turn.id for turn in turns]))
        spent = await settle(self._connection, {turn.id: None for turn in turns}, self._prices)
        contexts = {turn.id: turn.message_context for turn in turns}
        charges = [
            charge_of(each.usage, each.attribution.user_id, each.attribution.key_id, contexts[turn_id])
            for turn_id, each in spent.items()
        ]
        await charge(self._transaction, charges)
        return spent

    async def set_metadata(self, session_id: str, metadata: dict[str, str]) -> None:
        await self._connection.execute(_SET_METADATA, (as_json(metadata), session_id))

    async def set_agent(self, session: NewSession) -> bool:
        """Sets the session's agent. Returns False if the session already has an agent or turns."""
        names = ("id", "agent_id", "config_hash")
        parameters = {"config": as_json(session.config), **{name: getattr(session, name) for name in names}}
        return await fetch_value(self._connection, _SET_AGENT, parameters) is not None

    async def add_messages(self, session_id: str, messages: Sequence[Message]) -> list[api.Message]:
        """Adds messages to the history and returns them. The session must be locked."""
        rows = list(_message_rows(messages))
        parameters = {"session": session_id, "messages": as_json(rows), "places": count_positions(messages)}
        return [message_of(row) for row in await fetch_records(self._connection, _APPEND_MESSAGES, parameters)]

    async def mark_deleting(self, session_id: str, deletion: MessageContext) -> None:
        """Rejects further turns of the session. ``deletion`` is the context of the session's last event."""
        await self._connection.execute(_MARK_DELETING, (as_json(asdict(deletion)), session_id))

    async def is_held(self, session_id: str) -> bool:
        """Returns whether a worker is still executing one of the session's turns."""
        return bool(await fetch_value(self._connection, _IS_HELD, (session_id,)))

    async def deletion(self, session_id: str) -> MessageContext | None:
        """Locks the session. Returns the context passed to ``mark_deleting``, or None if that wasn't called."""
        deletion: str | None = await fetch_value(self._connection, _DELETION, (session_id,))
        return None if deletion is None else MessageContext(**read_json(deletion))

    async def was_deleted(self, session_id: str, company_id: str) -> bool:
        """Returns whether the company has deleted the session and the tombstone still exists."""
        return bool(await fetch_value(self._connection, _WAS_DELETED, (session_id, company_id)))

    async def _one(self, make: Callable[..., T], query: str, parameters: Parameters) -> T | None:
        row = await (await self._connection.execute(query, parameters)).fetchone()
        return None if row is None else make(*row)


async def create_sessions(outbox: Outbox, amounts: CompanyAmounts, creations: Sequence[SessionCreation]) -> None:
    """Adds all of the sessions in one transaction with two round trips, or none if there is an error.

    Raises ``AlreadyProcessed``, Conflict if an existing or deleted session has the same ID, and QuotaExceeded.
    """
    sessions = [creation.session for creation in creations]
    async with outbox.pipelined() as transaction:
        entry = await CommandRouter.enter_all(transaction, [creation.command for creation in creations])
        adding = await add_sessions(transaction.connection, sessions)
        excess = await amounts.excess(transaction.connection, {session.company_id for session in sessions}, SESSIONS)
        await entry.check()
        if len(await adding.fetchall()) != len(sessions):
            raise Conflict("A session with this ID already exists. Choose another ID.")
        for each in excess.values():
            raise each.error
        await add_messages(transaction.connection, sessions)
        for creation in creations:
            session, context = creation.session, creation.command.message
            transaction.emit(session.created(), subject=session.id, owner_id=session.owner_id, context=context)


async def remove_sessions(connection: Connection, session_ids: list[str]) -> None:
    """Deletes the sessions with all their data. Tombstones prevent reuse of their IDs."""
    for statement in _REMOVE:
        await connection.execute(statement, (session_ids,))


async def add_sessions(connection: Connection, sessions: Iterable[NewSession]) -> AsyncCursor[TupleRow]:
    """Adds sessions, and skips those that already exist or were deleted. Returns the IDs of the added sessions."""
    given = [{column: getattr(session, column) for column in _ADDED} for session in sessions]
    return await connection.execute(_ADD, (as_json(given),))


async def add_messages(connection: Connection, sessions: Iterable[NewSession]) -> None:
    rows = [{"session_id": session.id, **row} for session in sessions for row in _message_rows(session.messages)]
    if rows:
        await connection.execute(_ADD_MESSAGES, (as_json(rows),))


def _message_rows(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    for position, (role, text, blocks) in enumerate(map(message_to_row, messages)):
        yield {"position": position, "id": new_id(), "role": role, "content": text, "blocks": blocks}


def _turn(
    turn_id: str,
    session_id: str,
    status: str,
    company_id: str,
    correlation_id: str,
    traceparent: str | None,
    sequence: int,
    owner_id: str,
) -> LockedTurn:
    message_context = MessageContext(company_id, correlation_id, turn_id, traceparent, owner_id)
    return LockedTurn(turn_id, session_id, status, message_context, sequence)
