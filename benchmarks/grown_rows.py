"""Sessions, turns, messages and events in any number, written into the stores by SQL."""

from dataclasses import dataclass
from typing import Final

import psycopg

TURNS_OF_A_SESSION: Final = 10
EVENTS_OF_A_TURN: Final = 5
_BATCH: Final = 10_000
_TABLES: Final = {"runtime": ("sessions", "turns", "messages"), "gateway": ("timeline_events", "timeline_counters")}
_SESSIONS: Final = """
    INSERT INTO sessions (id, company_id, owner_id, config, config_hash, next_position, created_at)
    SELECT 'grown-s' || n, %(company)s, %(owner)s, '{"agent_type": "llm_agent"}', 'h', %(turns)s,
           now() - n * interval '1 s'
    FROM generate_series(%(first)s::bigint, %(last)s) n
"""
_TURNS: Final = """
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, identity, correlation_id, stream,
                       event_sequence, user_message_id, message_id, started_at, finished_at)
    SELECT 'grown-t' || n || '-' || p, 'grown-s' || n, %(company)s, p, 'completed', 1, 1, '{}', 'c' || n, false, 3,
           'u' || p, 'm' || p, now(), now()
    FROM generate_series(%(first)s::bigint, %(last)s) n, generate_series(0, %(turns)s - 1) p
"""
_MESSAGES: Final = """
    INSERT INTO messages (session_id, position, id, turn_id, role, content)
    SELECT 'grown-s' || n, p, 'm' || p, 'grown-t' || n || '-' || p / 2,
           CASE p %% 2 WHEN 0 THEN 'user' ELSE 'assistant' END, 'What was said at place ' || p || ' of session ' || n
    FROM generate_series(%(first)s::bigint, %(last)s) n, generate_series(0, 2 * %(turns)s - 1) p
"""
# Numbered on from what the company has: its readers go by that.
_EVENTS: Final = """
    INSERT INTO timeline_events (day, company_id, position, id, type, source, subject, sequence, "time",
                                 correlation_id, session_id, turn_id, owner_id, data)
    SELECT (now() AT TIME ZONE 'UTC')::date, %(company)s, %(head)s + row_number() OVER (ORDER BY n, e),
           'grown-e' || n || '-' || e, 'aes.runtime.turn.started.v1', '/aes/runtime',
           'grown-t' || n || '-' || e / %(events)s, e %% %(events)s + 1,
           to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           'c' || n, 'grown-s' || n, 'grown-t' || n || '-' || e / %(events)s, %(owner)s, '{}'
    FROM generate_series(%(first)s::bigint, %(last)s) n, generate_series(0, %(turns)s * %(events)s - 1) e
"""
_HEAD: Final = "SELECT coalesce((SELECT position FROM timeline_counters WHERE company_id = %s), 0)"
_MOVE_HEAD: Final = """
    INSERT INTO timeline_counters (company_id, position) VALUES (%s, %s)
    ON CONFLICT (company_id) DO UPDATE SET position = EXCLUDED.position
"""


@dataclass(frozen=True)
class Stores:
    """URLs of the databases of runtime and gateway."""

    runtime: str
    gateway: str

    def bytes(self) -> int:
        total = 0
        for url in (self.runtime, self.gateway):
            with psycopg.connect(url, autocommit=True) as connection:
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
                assert row is not None
                total += int(row[0])
        return total

    def add(self, company_id: str, owner_id: str, first: int, last: int) -> None:
        """Adds the sessions with these numbers, their turns, messages and events."""
        given = {"company": company_id, "owner": owner_id, "turns": TURNS_OF_A_SESSION, "events": EVENTS_OF_A_TURN}
        for start in range(first, last + 1, _BATCH):
            batch = {**given, "first": start, "last": min(start + _BATCH - 1, last)}
            with psycopg.connect(self.runtime) as connection:
                for statement in (_SESSIONS, _TURNS, _MESSAGES):
                    connection.execute(statement, batch)
            with psycopg.connect(self.gateway) as connection:
                # The counter's row locks out the writer of the timeline, so that no number is given twice.
                connection.execute("SELECT FROM timeline_counters WHERE company_id = %s FOR UPDATE", (company_id,))
                [[head]] = connection.execute(_HEAD, (company_id,)).fetchall()
                added = connection.execute(_EVENTS, {**batch, "head": head}).rowcount
                connection.execute(_MOVE_HEAD, (company_id, head + added))

    def settle(self) -> None:
        """Statistics and visibility, as autovacuum leaves them some minutes later."""
        for name, url in (("runtime", self.runtime), ("gateway", self.gateway)):
            with psycopg.connect(url, autocommit=True) as connection:
                for table in _TABLES[name]:
                    connection.execute(f"VACUUM (ANALYZE) {table}".encode())
