"""Model prices, and the usage of turns that end without a reply: the sum of their recorded steps."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog

from libs.contracts.errors import StoreUnavailable
from libs.contracts.replies import Attribution, Usage
from libs.persistence import Connection, Database, as_json, retry_until_available
from services.runtime.domain.models import DEFAULT_MODEL, ModelPrice, Prices, PriceTable, TurnSpending, priced

_log = structlog.get_logger("runtime.prices")
_PRICES: Final = "SELECT model, input_price, output_price FROM model_prices"
_PRICE_SECONDS: Final = 5.0
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


class PostgresPrices:
    """A cache of the model prices. ``table`` is empty until the first ``read``."""

    def __init__(self, database: Database) -> None:
        self.table = PriceTable()
        self._database = database

    async def begin(self) -> None:
        """Reads the prices, with retries until the database is available."""
        await retry_until_available(self.read)

    async def read(self) -> None:
        rows = await self._database.execute(_PRICES)
        self.table = PriceTable({model: ModelPrice(paid, produced) for model, paid, produced in rows})

    async def run(self) -> None:
        """Reloads the prices until cancelled. During an outage, the cached prices stay in use."""
        while True:
            try:
                await self.read()
            except StoreUnavailable as problem:
                _log.warning("prices.not_read", problem=str(problem))
            await asyncio.sleep(_PRICE_SECONDS)


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
