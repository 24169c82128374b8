"""Marks turns as watched, and reads their text and outcome for stream readers."""

from typing import Final

from libs.contracts.identity import Identity
from libs.contracts.resources.turns import WatchedTurn
from libs.json_text import read_json
from libs.persistence import Database
from services.runtime.adapters.postgres.session_reads import LEFT_OUT_TEXT, visible_to
from services.runtime.domain.turns import TurnEnd, whole_reply

_VISIBLE: Final = """
    t.id = %(turn)s AND t.session_id = %(session)s AND EXISTS (
        SELECT FROM sessions s WHERE s.id = t.session_id AND s.company_id = %(company)s
          AND (%(everyone)s OR s.owner_id = %(user)s))
"""
_STATE: Final = f"SELECT t.id, t.status, t.event_sequence FROM turns t WHERE {_VISIBLE}"
# Only locks the turn's row, so that it can't deadlock with the worker's writes.
_MARK: Final = f"""
    UPDATE turns t SET watches = t.watches + 1 WHERE {_VISIBLE} AND t.status IN ('queued', 'running', 'waiting')
    RETURNING t.watches
"""
_TEXTS: Final = """
    SELECT number, payload ->> 'text' FROM steps
    WHERE turn_id = %(turn)s AND kind = 'model' AND number > %(after_step)s AND payload ->> 'text' <> ''
"""
_END: Final = f"""
    SELECT t.status, t.event_sequence, t.correlation_id, t.reply::text, t.error::text, t.message_id,
           t.id AS turn_id, t.session_id, t.user_message_id, t.usage, {LEFT_OUT_TEXT.format(turn="t")} AS text
    FROM turns t WHERE {_VISIBLE}
"""


class PostgresWatchedTurns:
    """Turns for stream readers. Methods return nothing for a turn that the caller may not see."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def watch(
        self, session_id: str, turn_id: str, caller: Identity, *, after_step: int
    ) -> tuple[WatchedTurn, int | None] | None:
        """Counts a reader's request for the turn's text. Returns the turn and the number of requests so far.

        The number is None if the turn has ended. Only the texts of steps after ``after_step`` are returned.
        """
        parameters = {**visible_to(caller), "session": session_id, "turn": turn_id, "after_step": after_step}
        async with self._database.pipelined() as connection:
            # Mark the turn first, so that later text reaches the reader either as a record or as a delta.
            marking = await connection.execute(_MARK, parameters)
            looking = await connection.execute(_STATE, parameters)
            reading = await connection.execute(_TEXTS, parameters)
        marked, state, texts = await marking.fetchone(), await looking.fetchone(), await reading.fetchall()
        if state is None:
            return None
        _, status, sequence = state
        return WatchedTurn(status=status, sequence=sequence, texts=dict(texts)), marked[0] if marked else None

    async def end(self, session_id: str, turn_id: str, caller: Identity) -> TurnEnd | None:
        parameters = {**visible_to(caller), "session": session_id, "turn": turn_id}
        rows = await self._database.records(_END, parameters)
        if not rows:
            return None
        [row] = rows
        reply = None if row["reply"] is None else whole_reply(row["reply"], row["text"], row)
        error = None if row["error"] is None else read_json(row["error"])
        return TurnEnd(row["status"], row["event_sequence"], row["correlation_id"], reply, error)
