"""Sessions, turns, messages, events and what is remembered of messages, in any number, written by SQL."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg

from deploy.local.errors import StackError

TURNS_OF_A_SESSION: Final = 10
EVENTS_OF_A_TURN: Final = 5
DAYS: Final = 30
"""The days of the timeline, today included, over which sessions and events are spread."""
FIRST_EXPIRED: Final = 1_000_000
"""From here on are ids of expired rows in the outbox, which is purged in the order of ids."""
_FIRST_KEPT: Final = 100_000_000
_FIRST_OF_SERVICES: Final = 200_000_000
LEAST_FREE_BYTES: Final = 8 * 10**9
_BATCH: Final = 10_000
_WRITERS: Final = 2
# In the order of ids, as rows of services are: their ids begin with the time, and indexes stay compact.
_SESSION: Final = "'grown-' || %(name)s || lpad(n::text, 8, '0')"
_CORRELATION: Final = "'c' || lpad(n::text, 8, '0')"
_AT: Final = "%(begin)s::timestamptz + n * %(step)s::interval"


def _each(name: str, number: str) -> str:
    """SQL: places from 0 on in each session ``n``, one session after the other.

    A join of two series may come in the other order, which writes every page of an index as often as there are places.
    """
    return f"""
        generate_series(%(first)s::bigint * {number}, (%(last)s + 1)::bigint * {number} - 1) place,
        LATERAL (SELECT place / ({number}) AS n, place %% ({number}) AS {name}) AS each
    """


_SESSIONS: Final = f"""
    INSERT INTO sessions (id, company_id, owner_id, config, config_hash, next_position, created_at)
    SELECT {_SESSION}, %(company)s, %(owner)s, '{{"agent_type": "llm_agent"}}', 'h', %(turns)s, {_AT}
    FROM generate_series(%(first)s::bigint, %(last)s) n
"""
# As the trigger does it for each of them.
_AMOUNT: Final = """
    INSERT INTO company_amounts (company_id, name, amount)
    VALUES (%(company)s, 'sessions', %(last)s - %(first)s::bigint + 1)
"""
_SEQUENCES: Final = f"""
    INSERT INTO event_sequences (subject, last)
    SELECT {_SESSION}, 1 FROM generate_series(%(first)s::bigint, %(last)s) n
"""
_TURNS: Final = f"""
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, identity, correlation_id, stream,
                       event_sequence, user_message_id, message_id, created_at, started_at, finished_at)
    SELECT {_SESSION} || '-' || p, {_SESSION}, %(company)s, p, 'completed', 1, 1, '{{}}', {_CORRELATION}, false, 3,
           'u' || p, 'm' || p, {_AT}, {_AT}, {_AT}
    FROM {_each("p", "%(turns)s")}
"""
_MESSAGES: Final = f"""
    INSERT INTO messages (session_id, position, id, turn_id, role, content, created_at)
    SELECT {_SESSION}, p, 'm' || p, {_SESSION} || '-' || p / 2,
           CASE p %% 2 WHEN 0 THEN 'user' ELSE 'assistant' END, 'What was said at place ' || p || ' of session ' || n,
           {_AT}
    FROM {_each("p", "2 * %(turns)s")}
"""
_OUTBOX: Final = f"""
    INSERT INTO outbox (id, event_id, type, topic, subject, sequence, company_id, correlation_id, terminal, payload,
                        created_at, published_at)
    OVERRIDING SYSTEM VALUE
    SELECT %(first_id)s + n, 'grown-e' || %(first_id)s + n, 'aes.runtime.turn.started.v1', 'runtime-events',
           {_SESSION}, 1, %(company)s, {_CORRELATION}, false, convert_to(repeat('text of an event ', 20), 'UTF8'),
           {_AT}, {_AT}
    FROM generate_series(%(first)s::bigint, %(last)s) n
"""
_INBOX: Final = f"""
    INSERT INTO inbox (consumer, message_id, company_id, received_at)
    SELECT 'grown', {_SESSION}, %(company)s, {_AT} FROM generate_series(%(first)s::bigint, %(last)s) n
"""
_KEYS: Final = f"""
    INSERT INTO idempotency_keys (company_id, principal_id, method, path, key, body_hash, command_id, correlation_id,
                                  created_at)
    SELECT %(company)s::uuid, %(owner)s, 'POST', '/runtime/' || {_SESSION} || '/execute/', 'key ' || n,
           sha256('{{}}'), md5(n::text)::uuid, {_CORRELATION}, {_AT}
    FROM generate_series(%(first)s::bigint, %(last)s) n
"""
# Numbered on from what the company has: its readers go by that.
_EVENTS: Final = f"""
    INSERT INTO timeline_events (day, company_id, position, id, type, source, subject, sequence, "time",
                                 correlation_id, session_id, turn_id, owner_id, data)
    SELECT %(day)s::date, %(company)s, %(head)s + (n - 1) * %(turns)s * %(events)s + e + 1,
           {_SESSION} || '-' || e, 'aes.runtime.turn.started.v1', '/aes/runtime',
           {_SESSION} || '-' || e / %(events)s, e %% %(events)s + 1,
           to_char(%(day)s::date, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           {_CORRELATION}, {_SESSION}, {_SESSION} || '-' || e / %(events)s, %(owner)s, '{{}}'
    FROM {_each("e", "%(turns)s * %(events)s")}
"""
_TAKE_POSITIONS: Final = """
    INSERT INTO timeline_counters AS c (company_id, position) VALUES (%(company)s, %(count)s)
    ON CONFLICT (company_id) DO UPDATE SET position = c.position + EXCLUDED.position
    RETURNING position - %(count)s
"""
_RESERVE_IDS: Final = """
    SELECT setval(sequence, greatest(%s, nextval(sequence))) FROM pg_get_serial_sequence('outbox', 'id') sequence
"""


@dataclass(frozen=True)
class Stores:
    """URLs of the databases of runtime, gateway and ingestion, and the directory of their data.

    The runtime's role must be allowed to set ``session_replication_role``: checking foreign keys would take most of the
    time.
    """

    runtime: str
    gateway: str
    ingestion: str
    directory: Path = Path("/")

    def bytes(self) -> int:
        total = 0
        for url in (self.runtime, self.gateway, self.ingestion):
            with psycopg.connect(url, autocommit=True) as connection:
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
                assert row is not None
                total += int(row[0])
        return total

    def reserve_outbox_ids(self) -> None:
        """Lets the services' next outbox ids be above those of generated rows."""
        for url in (self.runtime, self.gateway):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_RESERVE_IDS, (_FIRST_OF_SERVICES,))

    def check_space(self) -> None:
        if shutil.disk_usage(self.directory).free < LEAST_FREE_BYTES:
            raise StackError("The disk is nearly full.", "Choose a smaller --scale.")


@dataclass(frozen=True)
class Sessions:
    """Sessions of a company, numbered from 1 to ``count`` and spread over the last days, with all that comes with them.

    ``head``: the position in the timeline after which their events come.
    """

    stores: Stores
    company_id: str
    owner_id: str
    count: int
    head: int
    today: date

    @classmethod
    def planned(cls, stores: Stores, company_id: str, owner_id: str, count: int) -> "Sessions":
        """Takes the positions of their events."""
        events = count * TURNS_OF_A_SESSION * EVENTS_OF_A_TURN
        with psycopg.connect(stores.gateway) as connection:
            given = {"company": company_id, "count": events}
            [[head]] = connection.execute(_TAKE_POSITIONS, given).fetchall()
        return cls(stores, company_id, owner_id, count, int(head), datetime.now(UTC).date())

    def add(self, first: int, last: int) -> None:
        """Adds the sessions with these numbers, their turns, messages and events, and for each session a row in the
        outbox, in the inbox and of idempotency keys."""
        with ThreadPoolExecutor(_WRITERS) as writers:
            work = [writers.submit(self._add_to_runtime, first, last)]
            work += [writers.submit(self._add_events, *each) for each in self._days(first, last)]
            work.append(writers.submit(self._add_keys, first, last))
            for each in work:
                each.result()

    def settle(self) -> None:
        """Statistics and visibility, as autovacuum leaves them some minutes later."""
        for url, tables in (
            (self.stores.runtime, ("sessions", "turns", "messages", "event_sequences", "outbox", "inbox")),
            (self.stores.gateway, ("timeline_events", "timeline_counters", "idempotency_keys")),
        ):
            with psycopg.connect(url, autocommit=True) as connection:
                for table in tables:
                    connection.execute(f"VACUUM (ANALYZE) {table}".encode())

    def _add_to_runtime(self, first: int, last: int) -> None:
        with psycopg.connect(self.stores.runtime, autocommit=True) as connection:
            for batch in _batches(first, last):
                self.stores.check_space()
                add_sessions(connection, {**self._given(timedelta(days=DAYS - 1)), **batch})
                with connection.transaction():
                    connection.execute(_SEQUENCES, {**self._given(timedelta()), **batch})
                    # For a day less than they are kept.
                    recent = {**self._given(timedelta(days=7)), **batch, "first_id": _FIRST_KEPT}
                    connection.execute(_OUTBOX, recent)
                    connection.execute(_INBOX, recent)

    def _add_events(self, day: date, first: int, last: int) -> None:
        given = {**self._given(timedelta()), "day": day, "head": self.head}
        with psycopg.connect(self.stores.gateway, autocommit=True) as connection:
            for batch in _batches(first, last):
                self.stores.check_space()
                connection.execute(_EVENTS, {**given, **batch})
            # While its pages are in memory.
            connection.execute(f"VACUUM (ANALYZE) timeline_events_{day:%Y%m%d}".encode())

    def _add_keys(self, first: int, last: int) -> None:
        with psycopg.connect(self.stores.gateway, autocommit=True) as connection:
            for batch in _batches(first, last):
                connection.execute(_KEYS, {**self._given(timedelta(days=2)), **batch})

    def _given(self, age: timedelta) -> dict[str, Any]:
        """``age``: that of the first session; the last one's is nothing."""
        return _given("s", self.company_id, self.owner_id, datetime.now(UTC) - age, age / self.count)

    def _days(self, first: int, last: int) -> Iterator[tuple[date, int, int]]:
        """The days with those of their sessions that are between the numbers."""
        for number in range(DAYS):
            begin = max(first, number * self.count // DAYS + 1)
            end = min(last, (number + 1) * self.count // DAYS)
            if begin <= end:
                yield self.today - timedelta(days=DAYS - 1 - number), begin, end


@dataclass(frozen=True)
class Expired:
    """Rows that services are to remove, of a round of a benchmark: ``name`` tells them from those of others."""

    stores: Stores
    company_id: str
    owner_id: str
    name: str
    first_id: int
    """The id before that of its first row in the outbox."""

    def add_sessions(self, count: int, age: timedelta) -> None:
        with psycopg.connect(self.stores.runtime, autocommit=True) as connection:
            add_sessions(connection, self._given(count, age))

    def add_outbox_rows(self, count: int, age: timedelta) -> None:
        # Not of the subjects of sessions, whose tombstones stay.
        given = {**self._given(count, age), "name": f"{self.name}o", "first_id": self.first_id}
        with psycopg.connect(self.stores.runtime, autocommit=True) as connection:
            connection.execute(_SEQUENCES, given)
            connection.execute(_OUTBOX, given)

    def add_inbox_rows(self, count: int, age: timedelta) -> None:
        with psycopg.connect(self.stores.runtime, autocommit=True) as connection:
            connection.execute(_INBOX, self._given(count, age))

    def add_keys(self, count: int, age: timedelta) -> None:
        with psycopg.connect(self.stores.gateway, autocommit=True) as connection:
            connection.execute(_KEYS, self._given(count, age))

    def add_events(self, sessions: int, day: date) -> None:
        """Adds the events of so many sessions to a day that has a partition."""
        with psycopg.connect(self.stores.gateway, autocommit=True) as connection:
            # No reader goes there: positions begin at 1.
            given = {**self._given(sessions, timedelta()), "day": day, "head": -(10**9)}
            connection.execute(_EVENTS, given)

    def _given(self, count: int, age: timedelta) -> dict[str, Any]:
        begin = datetime.now(UTC) - age
        given = _given(self.name, self.company_id, self.owner_id, begin, timedelta(microseconds=1))
        return {**given, "first": 1, "last": count}


def add_sessions(connection: psycopg.Connection[Any], given: dict[str, Any]) -> None:
    """Adds sessions with their turns and messages."""
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        for statement in (_SESSIONS, _AMOUNT, _TURNS, _MESSAGES):
            connection.execute(statement, given)


def _given(name: str, company_id: str, owner_id: str, begin: datetime, step: timedelta) -> dict[str, Any]:
    numbers = {"turns": TURNS_OF_A_SESSION, "events": EVENTS_OF_A_TURN}
    return {"name": name, "company": company_id, "owner": owner_id, "begin": begin, "step": step, **numbers}


def _batches(first: int, last: int) -> Iterator[dict[str, int]]:
    for start in range(first, last + 1, _BATCH):
        yield {"first": start, "last": min(start + _BATCH - 1, last)}
