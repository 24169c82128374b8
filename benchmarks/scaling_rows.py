"""Creates any number of sessions and knowledge bases with SQL."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.sql import SQL

from deploy.local.errors import StackError
from services.ingestion.adapters.engines.pgvector.catalog import IndexTable

TURNS_OF_A_SESSION: Final = 10
EVENTS_OF_A_TURN: Final = 5
DAYS: Final = 30
"""The number of days, including today, over which sessions and events are spread."""
FIRST_EXPIRED: Final = 1_000_000
"""The first ID of expired rows in the outbox."""
_FIRST_KEPT: Final = 100_000_000
_FIRST_OF_SERVICES: Final = 200_000_000
LEAST_FREE_BYTES: Final = 8 * 10**9
_BATCH: Final = 10_000
_WRITERS: Final = 2
# Rows are in ID order, as in a real service. This keeps indexes compact.
_SESSION: Final = "'grown-' || %(name)s || lpad(n::text, 8, '0')"
_CORRELATION: Final = "'c' || lpad(n::text, 8, '0')"
_AT: Final = "%(begin)s::timestamptz + n * %(step)s::interval"


def _each(name: str, number: str) -> str:
    """Returns SQL that yields the numbers below ``number`` as ``name`` for each session ``n``, ordered by session.

    A join of two series could return rows in another order, which slows down index writes.
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
# Counts the sessions, as the trigger does for each new session.
_AMOUNT: Final = """
    INSERT INTO company_amounts (company_id, name, amount)
    VALUES (%(company)s, 'sessions', %(last)s - %(first)s::bigint + 1)
"""
_SEQUENCES: Final = f"""
    INSERT INTO event_sequences (subject, last)
    SELECT {_SESSION}, 1 FROM generate_series(%(first)s::bigint, %(last)s) n
"""
_TURNS: Final = f"""
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, identity, correlation_id, request,
                       event_sequence, user_message_id, message_id, created_at, started_at, finished_at)
    SELECT {_SESSION} || '-' || p, {_SESSION}, %(company)s, p, 'completed', 1, 1, '{{}}', {_CORRELATION}, '{{}}', 3,
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
# Continues the company's numbering, which its readers rely on.
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
# A copy's IDs are derived from the original IDs, so that the copied rows reference each other.
_COPIED: Final = """
    CREATE FUNCTION pg_temp.copied(id text, number bigint) RETURNS text IMMUTABLE LANGUAGE sql
    RETURN md5(id || number)::uuid::text
"""
_COPIES: Final = {
    "knowledge_bases": (("id", "index_id", "run_id"), "t.id = %(id)s"),
    "knowledge_base_indexes": (("id", "knowledge_base_id"), "t.knowledge_base_id = %(id)s"),
    "ingestion_runs": (("id", "knowledge_base_id", "index_id"), "t.knowledge_base_id = %(id)s"),
    "files": (("id",), "t.id IN (SELECT file_id FROM ingestion_items WHERE index_id = %(index)s)"),
    "ingestion_items": (("index_id", "file_id", "run_id"), "t.index_id = %(index)s"),
}
_INDEX: Final = """
    SELECT i.id, i.number, i.dimensions, i.passages FROM knowledge_bases b JOIN search.indexes i ON i.id = b.index_id
    WHERE b.id = %s
"""
_COPY_INDEX: Final = """
    INSERT INTO search.indexes (id, dimensions, passages, terms, counted_passages, version)
    SELECT pg_temp.copied(id, %(number)s), dimensions, passages, terms, counted_passages, version
    FROM search.indexes WHERE id = %(index)s RETURNING number
"""
_COPY_FREQUENCIES: Final = """
    INSERT INTO search.term_frequencies (index_number, version, term, passages)
    SELECT %s, version, term, passages FROM search.term_frequencies WHERE index_number = %s
"""
_COPY_PASSAGES: Final = SQL("INSERT INTO {} (file_id, {columns}) SELECT pg_temp.copied(file_id, %s), {columns} FROM {}")
_COLUMNS: Final = SQL(
    "id, position, start_offset, end_offset, page, row_number, length, average_length, embedding, weights, terms,"
    " content"
)


@dataclass(frozen=True)
class Stores:
    """The database URLs of runtime, timeline and ingestion, and the data directory.

    The runtime's role must be allowed to set ``session_replication_role``, which turns off checks of foreign keys.
    """

    runtime: str
    timeline: str
    ingestion: str
    directory: Path = Path("/")

    def bytes(self) -> int:
        total = 0
        for url in (self.runtime, self.timeline, self.ingestion):
            [[size]] = execute(url, "SELECT pg_database_size(current_database())")
            total += int(size)
        return total

    def reserve_outbox_ids(self) -> None:
        """Moves the services' next outbox IDs above those of the generated rows."""
        for url in (self.runtime, self.timeline):
            execute(url, _RESERVE_IDS, (_FIRST_OF_SERVICES,))

    def settle(self) -> None:
        """Updates the statistics and visibility maps, as autovacuum does after a few minutes."""
        for url in (self.runtime, self.timeline, self.ingestion):
            execute(url, "VACUUM (ANALYZE)")

    def check_space(self) -> None:
        if shutil.disk_usage(self.directory).free < LEAST_FREE_BYTES:
            raise StackError("The disk is nearly full.", "Choose a smaller --scale.")


@dataclass(frozen=True)
class Rows:
    """A company's rows. Their IDs start with ``name``, and row ``n`` has the time ``begin`` plus ``n * step``."""

    stores: Stores
    company_id: str
    owner_id: str
    name: str = "s"
    begin: datetime = datetime.min
    step: timedelta = timedelta(microseconds=1)

    def spread(self, count: int, days: int) -> "Rows":
        """Returns the rows with their times spread over the last ``days``."""
        age = timedelta(days=days)
        return replace(self, begin=datetime.now(UTC) - age, step=age / count)

    def add_sessions(self, first: int, last: int) -> None:
        """Adds the sessions with these numbers, including turns and messages."""
        self._write(self.stores.runtime, first, last, _SESSIONS, _AMOUNT, _TURNS, _MESSAGES)

    def add_outbox_rows(self, first: int, last: int, first_id: int) -> None:
        """Row ``n`` gets the ID ``first_id + n``."""
        self._write(self.stores.runtime, first, last, _SEQUENCES, _OUTBOX, first_id=first_id)

    def add_events(self, first: int, last: int, day: date, head: int) -> None:
        """Adds sessions' events to the partition of ``day``, after the timeline position ``head``."""
        self._write(self.stores.timeline, first, last, _EVENTS, day=day, head=head)

    def _write(self, url: str, first: int, last: int, *statements: str, **more: Any) -> None:
        numbers = {"turns": TURNS_OF_A_SESSION, "events": EVENTS_OF_A_TURN}
        given = {"name": self.name, "company": self.company_id, "owner": self.owner_id, **numbers, **more}
        given |= {"begin": self.begin, "step": self.step}
        with psycopg.connect(url, autocommit=True) as connection:
            for start in range(first, last + 1, _BATCH):
                self.stores.check_space()
                with connection.transaction():
                    if url == self.stores.runtime:
                        connection.execute("SET LOCAL session_replication_role = replica")
                    for statement in statements:
                        batch = {"first": start, "last": min(start + _BATCH - 1, last)}
                        connection.execute(statement.encode(), given | batch)


@dataclass(frozen=True)
class Sessions:
    """Sessions from 1 to ``count``. ``head`` is the timeline position before the first event."""

    rows: Rows
    count: int
    head: int

    @classmethod
    def planned(cls, rows: Rows, count: int) -> "Sessions":
        """Returns the sessions, and reserves timeline positions for the events."""
        events = count * TURNS_OF_A_SESSION * EVENTS_OF_A_TURN
        [[head]] = execute(rows.stores.timeline, _TAKE_POSITIONS, {"company": rows.company_id, "count": events})
        return cls(rows, count, int(head))

    def add(self, first: int, last: int) -> None:
        """Adds the sessions with these numbers, with turns, messages, events and an outbox row each."""
        with ThreadPoolExecutor(_WRITERS) as writers:
            work = [writers.submit(self._add_to_runtime, first, last)]
            for number in range(DAYS):
                begin = max(first, number * self.count // DAYS + 1)
                end = min(last, (number + 1) * self.count // DAYS)
                if begin <= end:
                    day = datetime.now(UTC).date() - timedelta(days=DAYS - 1 - number)
                    work.append(writers.submit(self._add_events, begin, end, day))
            for each in work:
                each.result()

    def _add_to_runtime(self, first: int, last: int) -> None:
        self.rows.spread(self.count, DAYS - 1).add_sessions(first, last)
        # One day less than the retention of outbox rows.
        self.rows.spread(self.count, 7).add_outbox_rows(first, last, _FIRST_KEPT)

    def _add_events(self, first: int, last: int, day: date) -> None:
        self.rows.add_events(first, last, day, self.head)
        # Runs while the pages are still in memory.
        execute(self.rows.stores.timeline, f"VACUUM (ANALYZE) timeline_events_{day:%Y%m%d}")


@dataclass(frozen=True)
class KnowledgeBase:
    """A typical knowledge base, and the table of its index."""

    id: str
    index_id: str
    table: IndexTable
    passages: int

    @classmethod
    def find(cls, stores: Stores, knowledge_base_id: str) -> "KnowledgeBase":
        [[index_id, number, dimensions, passages]] = execute(stores.ingestion, _INDEX, (knowledge_base_id,))
        return cls(knowledge_base_id, index_id, IndexTable(number, dimensions), passages)

    def copy(self, stores: Stores, first: int, last: int) -> None:
        """Adds the copies with these numbers, including files, indexes and passages."""
        with psycopg.connect(stores.ingestion, autocommit=True) as connection:
            connection.execute(_COPIED.encode())
            for number in range(first, last + 1):
                stores.check_space()
                # In a single transaction, because the service ingests knowledge bases without an index, and drops
                # unused indexes.
                with connection.transaction():
                    self._copy_index(connection, number)
                    given = {"id": self.id, "index": self.index_id, "number": number}
                    for table, (columns, those) in _COPIES.items():
                        connection.execute(_copies(table, columns, those).encode(), given)

    def _copy_index(self, connection: psycopg.Connection[Any], number: int) -> None:
        [[made]] = connection.execute(_COPY_INDEX, {"number": number, "index": self.index_id}).fetchall()
        table = IndexTable(made, self.table.dimensions)
        for statement in table.create():
            connection.execute(statement)
        connection.execute(_COPY_PASSAGES.format(table.name, self.table.name, columns=_COLUMNS), (number,))
        connection.execute(_COPY_FREQUENCIES, (made, self.table.number))


def _copies(table: str, columns: tuple[str, ...], those: str) -> str:
    changed = ", ".join(f"'{column}', pg_temp.copied(t.{column}, %(number)s)" for column in columns)
    return f"""
        INSERT INTO {table}
        SELECT c.* FROM {table} t, jsonb_populate_record(t, jsonb_build_object({changed})) c WHERE {those}
    """


def execute(url: str, statement: str, given: Any = None) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(statement.encode(), given)
        return done.fetchall() if done.description else []
