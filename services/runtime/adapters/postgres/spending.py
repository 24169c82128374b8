"""Computes the usage of turns that end without a reply, by adding up their recorded steps."""

from collections.abc import Mapping
from typing import Any, Final

from libs.contracts.replies import Attribution, Usage
from libs.persistence import Connection, as_json
from services.runtime.domain.models import DEFAULT_MODEL, Prices, TurnSpending, priced

# A separate statement after the update that ended the turns, so that its snapshot includes every step.
_SPENT: Final = """
    SELECT t.id, s.agent_id, coalesce(nullif(s.config -> 'llm_config' ->> 'model', ''), %(model)s),
           t.identity ->> 'user_id', t.identity ->> 'key_id',
           t.worked + coalesce(extract(epoch FROM t.finished_at - t.claimed_at), 0)::float8,
           u.input_tokens, u.output_tokens, u.model_calls, u.tool_calls
    FROM turns t JOIN sessions s ON s.id = t.session_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum((usage ->> 'input_tokens')::bigint), 0)::bigint AS input_tokens,
               coalesce(sum((usage ->> 'output_tokens')::bigint), 0)::bigint AS output_tokens,
               count(*) FILTER (WHERE kind = 'model') AS model_calls,
               count(*) FILTER (WHERE kind = 'tool') AS tool_calls
        FROM steps WHERE turn_id = t.id
    ) u
    WHERE t.id = ANY(%(turns)s)
"""
_KEEP: Final = """
    UPDATE turns t SET usage = g.usage FROM json_to_recordset(%s) AS g (id text, usage json) WHERE t.id = g.id
"""


async def settle(
    connection: Connection, unrecorded: Mapping[str, Usage | None], prices: Prices
) -> dict[str, TurnSpending]:
    """Stores and returns the usage and cost of turns that have just ended, by turn ID.

    ``unrecorded`` maps each turn's ID to usage that no recorded step includes, or to None if there is none.
    """
    rows = await (await connection.execute(_SPENT, {"turns": list(unrecorded), "model": DEFAULT_MODEL})).fetchall()
    settled = {}
    for row in rows:
        attribution = Attribution(agent_id=row[1], model=row[2], user_id=row[3] or "", key_id=row[4] or "")
        usage = _sum(row, unrecorded[row[0]])
        settled[row[0]] = TurnSpending(priced(usage, attribution.model, prices.table), attribution)
    kept = [{"id": turn_id, "usage": spent.usage.model_dump()} for turn_id, spent in settled.items()]
    await connection.execute(_KEEP, (as_json(kept),))
    return settled


def _sum(row: tuple[Any, ...], more: Usage | None) -> Usage:
    more = more or Usage()
    return Usage(
        input_tokens=row[6] + more.input_tokens,
        output_tokens=row[7] + more.output_tokens,
        model_calls=row[8] + more.model_calls,
        tool_calls=row[9],
        seconds=round(max(row[5], 0.0), 3),
    )
