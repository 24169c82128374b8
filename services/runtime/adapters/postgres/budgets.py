"""Stores budgets in PostgreSQL. They're read at admission and charged in the transactions that end turns."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from libs.contracts.messages import Draft, MessageContext
from libs.contracts.resources.budgets import Budget, BudgetExhausted, BudgetPage, BudgetWarning, CreateBudget
from libs.eventing import Transaction
from libs.persistence import NEWEST_FIRST, Connection, Database, as_json, fetch_page, fetch_records, fetch_value
from services.runtime.domain.budgets import BudgetState, Charge, renewal

# Usage from an earlier period doesn't count, so no job is needed to start a new period.
_BEGINNING: Final = """
    CASE period WHEN 'day' THEN date_trunc('day', now(), 'UTC') WHEN 'month' THEN date_trunc('month', now(), 'UTC')
    ELSE started_at END
"""
_IS_CURRENT: Final = f"started_at >= {_BEGINNING}"
COLUMNS: Final = f"""
    id, company_id, owner_id, description, user_id, key_id, period, cost, tokens, warning_percent,
    CASE WHEN {_IS_CURRENT} THEN used_cost ELSE 0 END AS used_cost,
    CASE WHEN {_IS_CURRENT} THEN used_tokens ELSE 0 END AS used_tokens,
    greatest(started_at, {_BEGINNING}) AS period_started_at, now() AS read_at, created_at, updated_at
"""
IS_EXHAUSTED: Final = f"{_IS_CURRENT} AND (used_cost >= cost OR used_tokens >= tokens)"
_EXHAUSTED: Final = f"SELECT {COLUMNS} FROM budgets WHERE company_id = ANY(%s) AND {IS_EXHAUSTED} ORDER BY created_at"
# Budgets are locked after sessions and turns, and in ID order, so that two transactions can't deadlock.
_LOCK_ALL: Final = "SELECT id FROM budgets WHERE company_id = ANY(%s) ORDER BY id FOR UPDATE"
_CHARGE: Final = f"""
    WITH given AS (
        SELECT * FROM json_to_recordset(%s) AS g (
            company_id text, user_id text, key_id text, tokens bigint, cost numeric)
    ), spent AS (
        SELECT b.id, sum(g.tokens)::bigint AS tokens, sum(g.cost) AS cost FROM budgets b
        JOIN given g ON g.company_id = b.company_id
            AND coalesce(b.user_id = g.user_id, true) AND coalesce(b.key_id = g.key_id, true)
        GROUP BY b.id
    ), charged AS (
        UPDATE budgets b SET started_at = greatest(b.started_at, {_BEGINNING}),
            used_tokens = s.tokens + CASE WHEN {_IS_CURRENT} THEN b.used_tokens ELSE 0 END,
            used_cost = s.cost + CASE WHEN {_IS_CURRENT} THEN b.used_cost ELSE 0 END
        FROM spent s WHERE b.id = s.id RETURNING b.*
    )
    SELECT {COLUMNS}, added_tokens, added_cost
    FROM charged JOIN (SELECT id AS spent_id, tokens AS added_tokens, cost AS added_cost FROM spent) s
        ON s.spent_id = charged.id
"""
_COUNT: Final = "SELECT count(*) FROM budgets WHERE company_id = %s"
_TAKE_TURNS: Final = "SELECT pg_advisory_xact_lock(hashtextextended('aes.runtime.budgets ' || %s, 0))"
_ADD: Final = f"""
    WITH added AS (
        INSERT INTO budgets (id, company_id, owner_id, description, user_id, key_id, period, cost, tokens,
                             warning_percent, used_cost, used_tokens, started_at)
        SELECT %(id)s, %(company_id)s, %(owner_id)s, %(description)s, %(user_id)s, %(key_id)s, %(period)s,
               %(cost)s::numeric, %(tokens)s::bigint, %(warning_percent)s, %(used_cost)s::numeric, %(used_tokens)s,
               CASE %(period)s WHEN 'day' THEN date_trunc('day', of.moment, 'UTC')
                               WHEN 'month' THEN date_trunc('month', of.moment, 'UTC') ELSE of.moment END
        FROM (SELECT coalesce(%(period_started_at)s::timestamptz, now()) AS moment) of
        RETURNING *
    )
    SELECT {COLUMNS} FROM added
"""
_ONE: Final = f"SELECT {COLUMNS} FROM budgets WHERE company_id = %s AND id = %s"
_OF_COMPANY: Final = "FROM budgets WHERE company_id = %(company)s"
_CHANGE: Final = f"""
    WITH changed AS (UPDATE budgets SET {{changes}}, updated_at = now() WHERE id = %(id)s RETURNING *)
    SELECT {COLUMNS} FROM changed
"""
_CASTS: Final = {"cost": "::numeric", "tokens": "::bigint"}
_REMOVE: Final = "DELETE FROM budgets WHERE id = %s"


async def exhausted(connection: Connection, company_ids: Sequence[str]) -> list[BudgetState]:
    return [_state(row) for row in await fetch_records(connection, _EXHAUSTED, (list(company_ids),))]


async def charge(transaction: Transaction, charges: Sequence[Charge]) -> None:
    """Charges turns that end in this transaction, and emits the budgets' warning and exhaustion events."""
    connection = transaction.connection
    locked = await connection.execute(_LOCK_ALL, (list({each.company_id for each in charges}),))
    if not await locked.fetchall():
        return
    given = [
        {"company_id": c.company_id, "user_id": c.user_id, "key_id": c.key_id, "tokens": c.tokens, "cost": str(c.cost)}
        for c in charges
    ]
    # A separate statement after the locks, so that its snapshot includes concurrent charges.
    rows = await fetch_records(connection, _CHARGE, (as_json(given),))
    label = {each.company_id: each.correlation_id for each in charges}
    for row in rows:
        tokens, cost = row.pop("added_tokens"), row.pop("added_cost")
        budget = _state(row)
        before = replace(budget, used_tokens=budget.used_tokens - tokens, used_cost=budget.used_cost - cost)
        context = MessageContext(budget.company_id, label[budget.company_id], owner_id=budget.owner_id)
        if event := _crossed(before, budget):
            transaction.drafts.append(Draft(event, subject=budget.id, context=context))


def _crossed(before: BudgetState, after: BudgetState) -> BudgetExhausted | BudgetWarning | None:
    if after.is_exceeded and not before.is_exceeded:
        return BudgetExhausted(budget=after.public())
    if after.is_warning and not before.is_warning:
        return BudgetWarning(budget=after.public())
    return None


class PostgresBudgetWriter:
    """Changes budgets in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def lock_and_count(self, company_id: str) -> int:
        """Returns the number of the company's budgets, and blocks additions until the transaction ends."""
        await self._connection.execute(_TAKE_TURNS, (company_id,))
        return int(await fetch_value(self._connection, _COUNT, (company_id,)))

    async def add(self, budget_id: str, company_id: str, command: CreateBudget) -> BudgetState:
        values = {
            **command.budget.model_dump(),
            "id": budget_id,
            "company_id": company_id,
            "owner_id": command.owner_id,
            "used_cost": command.used.cost,
            "used_tokens": command.used.tokens,
            "period_started_at": command.period_started_at,
        }
        return _state((await fetch_records(self._connection, _ADD, values))[0])

    async def lock(self, company_id: str, budget_id: str) -> BudgetState | None:
        rows = await fetch_records(self._connection, f"{_ONE} FOR UPDATE", (company_id, budget_id))
        return _state(rows[0]) if rows else None

    async def change(self, budget_id: str, changes: dict[str, Any]) -> BudgetState:
        """Changes a locked budget. ``changes`` maps column names to values."""
        assignments = ", ".join(f"{name} = %({name})s{_CASTS.get(name, '')}" for name in changes)
        statement = _CHANGE.format(changes=assignments)
        return _state((await fetch_records(self._connection, statement, {**changes, "id": budget_id}))[0])

    async def remove(self, budget_id: str) -> None:
        await self._connection.execute(_REMOVE, (budget_id,))


class PostgresBudgetReads:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def budgets(self, company_id: str, *, limit: int, offset: int, cursor: str | None = None) -> BudgetPage:
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, COLUMNS, _OF_COMPANY, NEWEST_FIRST, {"company": company_id},
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return BudgetPage(budgets=page.map(lambda row: _state(row).public()).items, **page.facts)

    async def budget(self, company_id: str, budget_id: str) -> Budget | None:
        rows = await self._database.records(_ONE, (company_id, budget_id))
        return _state(rows[0]).public() if rows else None


def _state(row: dict[str, Any]) -> BudgetState:
    read_at: datetime = row.pop("read_at")
    started_at = row.pop("period_started_at").astimezone(UTC)
    renews_at = renewal(row["period"], started_at)
    renews_in = None if renews_at is None else (renews_at - read_at).total_seconds()
    return BudgetState(**row, period_started_at=started_at, renews_at=renews_at, renews_in=renews_in)
