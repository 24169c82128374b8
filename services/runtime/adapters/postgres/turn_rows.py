"""How a claimed turn stands in its row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from libs.contracts.identity import Identity
from services.runtime.domain.turn_events import turn_message_context
from services.runtime.domain.turns import ClaimedTurn

LIVE: Final = "(status IN ('queued', 'running') OR worker_id IS NOT NULL)"
"""Turns that wait, run, or are cancelled while their execution has not stopped yet: what ix_turns_live holds."""

CLAIMED_COLUMNS: Final = """
    t.id, t.session_id, t.position, t.attempt, t.fence, t.user_message_id, t.identity::text,
    t.company_id, t.correlation_id, t.traceparent, t.stream,
    coalesce(extract(epoch FROM t.deadline - clock_timestamp()), 0)::float8
"""
CLAIMED_WIDTH: Final = 12


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
        message_context=turn_message_context(row[0], row[7], row[8], row[9]),
        stream=row[10],
        seconds_left=row[11],
    )


@lru_cache(maxsize=1024)
def identity_from(text: str) -> Identity:
    return Identity.model_validate_json(text)


@lru_cache(maxsize=1024)
def identity_json(identity: Identity) -> str:
    """The same text for the same identity, so that reading it back meets the cache."""
    return identity.model_dump_json()
