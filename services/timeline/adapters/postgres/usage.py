"""Reads hourly usage from PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from libs.contracts.decimals import decimal_text
from libs.contracts.resources.usage import UsageGroup, UsageItem
from libs.persistence import Database, fetch_records
from services.timeline.domain.usage import UsagePage, UsageSpan

_KEY: Final = "company_id, hour, user_id, key_id, agent_id, model"
_NUMBERS: Final = (
    "turns",
    "input_tokens",
    "output_tokens",
    "tool_calls",
    "seconds",
    "cost",
    "unpriced_turns",
)
# Part of a statement that defines the `fresh` events with their usage, and the locked `counters` of their companies.
# Because of the lock, only one transaction at a time adds to a company's usage.
ADD_USAGE: Final = f"""
    INSERT INTO usage_hours AS h ({_KEY}, {", ".join(_NUMBERS)})
    SELECT fresh.company_id, u.hour, u.user_id, u.key_id, u.agent_id, u.model, count(*), sum(u.input_tokens),
           sum(u.output_tokens), sum(u.tool_calls), sum(u.seconds), coalesce(sum(u.cost), 0),
           count(*) FILTER (WHERE u.cost IS NULL)
    FROM fresh JOIN counters USING (company_id)
    CROSS JOIN LATERAL json_to_record(fresh.usage) AS u (
        hour timestamptz, user_id text, key_id text, agent_id text, model text, input_tokens bigint,
        output_tokens bigint, tool_calls bigint, seconds numeric, cost numeric)
    WHERE fresh.usage IS NOT NULL
    GROUP BY fresh.company_id, u.hour, u.user_id, u.key_id, u.agent_id, u.model
    ON CONFLICT ({_KEY}) DO UPDATE SET {", ".join(f"{name} = h.{name} + EXCLUDED.{name}" for name in _NUMBERS)}
"""
_COLUMNS: Final = {
    UsageGroup.DAY: "to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    UsageGroup.AGENT: "agent_id",
    UsageGroup.MODEL: "model",
    UsageGroup.USER: "user_id",
    UsageGroup.KEY: "key_id",
}
_SUMS: Final = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in _NUMBERS)
_WHERE: Final = """
    FROM usage_hours WHERE company_id = %(company)s AND hour >= %(begin)s AND hour < %(end)s
      AND (%(user)s::text IS NULL OR user_id = %(user)s) AND (%(key)s::text IS NULL OR key_id = %(key)s)
"""
_PURGE: Final = """
    DELETE FROM usage_hours WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM usage_hours WHERE hour < %s ORDER BY hour LIMIT %s))
"""


class PostgresUsage:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def usage(self, span: UsageSpan, groups: Sequence[UsageGroup], *, limit: int, offset: int) -> UsagePage:
        values = {
            "company": span.company_id,
            "user": span.user_id,
            "key": span.key_id,
            "begin": span.begin,
            "end": span.end,
            "limit": limit,
            "offset": offset,
        }
        columns = [f'{_COLUMNS[group]} AS "{group}"' for group in groups]
        names = ", ".join(f'"{group}"' for group in groups)
        # Reads both from one snapshot, so that the groups add up to the total.
        async with self._database.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            [totals] = await fetch_records(connection, f"SELECT {_SUMS} {_WHERE}", values)
            if not groups:
                return UsagePage([_item(totals, ())], 1, _item(totals, ()))
            grouped = f"SELECT {', '.join(columns)}, {_SUMS} {_WHERE} GROUP BY {names}"
            page = f"SELECT *, count(*) OVER () AS number FROM ({grouped}) g ORDER BY {names} LIMIT %(limit)s"
            rows = await fetch_records(connection, f"{page} OFFSET %(offset)s", values)
            number = rows[0]["number"] if rows else await _count(connection, grouped, values, offset)
        return UsagePage([_item(row, groups) for row in rows], number, _item(totals, ()))

    async def purge(self, before: datetime, *, limit: int) -> int:
        async with self._database.connection() as connection:
            return (await connection.execute(_PURGE, (before, limit))).rowcount


async def _count(connection: Any, grouped: str, values: dict[str, Any], offset: int) -> int:
    """Counts all groups if the page has no rows. Otherwise, each of its rows contains this number."""
    if not offset:
        return 0
    [row] = await fetch_records(connection, f"SELECT count(*) AS number FROM ({grouped}) g", values)
    return int(row["number"])


def _item(row: dict[str, Any], groups: Sequence[UsageGroup]) -> UsageItem:
    """Converts a row to the API's format. Unknown values are null."""
    group = {group if group in ("day", "model") else f"{group}_id": row[group] or None for group in groups}
    numbers = {name: row[name] for name in _NUMBERS}
    return UsageItem.model_validate({**group, **numbers, "cost": decimal_text(row["cost"])})
