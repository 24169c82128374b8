"""The table of amounts, and the triggers that count rows of other tables into it."""

from collections.abc import Mapping
from types import ModuleType

from alembic.operations import Operations

# A change is a row; the one that has been folded is the sum of those before.
_TABLE = """
    CREATE TABLE IF NOT EXISTS company_amounts (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_company_amounts PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        amount bigint NOT NULL,
        folded boolean NOT NULL DEFAULT false
    )
"""
_BY_COMPANY = "CREATE INDEX IF NOT EXISTS ix_company_amounts_company_id ON company_amounts (company_id, name)"
_CHANGED = "CREATE INDEX IF NOT EXISTS ix_company_amounts_changed ON company_amounts (id) WHERE NOT folded"
_FUNCTION = """
    CREATE OR REPLACE FUNCTION count_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            IF {old} THEN
                INSERT INTO company_amounts (company_id, name, amount) VALUES {less};
            END IF;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            IF {new} THEN
                INSERT INTO company_amounts (company_id, name, amount) VALUES {more};
            END IF;
        END IF;
        RETURN NULL;
    END $$
"""
_TRIGGERS = {
    "INSERT": "{new}",
    "UPDATE": "({old}) IS DISTINCT FROM ({new})",
    "DELETE": "{old}",
}
# In one statement, which sees the rows and their changes in the same state: no writer has to wait.
_COUNT = """
    WITH before AS (DELETE FROM company_amounts WHERE name = ANY(ARRAY[{names}]))
    INSERT INTO company_amounts (company_id, name, amount, folded)
    SELECT r.company, a.name, sum(a.amount), true
    FROM (SELECT t.*, {company} AS company FROM {table} t WHERE {counted}) r
    CROSS JOIN LATERAL (VALUES {amounts}) AS a (name, amount)
    GROUP BY r.company, a.name
"""


def count_rows(
    op: Operations | ModuleType,
    table: str,
    amounts: Mapping[str, str],
    *,
    counted: str = "true",
    company: str = "{row}.company_id",
) -> None:
    """Counts the rows of the table that are there, and has triggers count those that come and go.

    ``amounts``: by the name of a limit, SQL for what a row counts. ``counted``: a condition; rows that meet it count.
    ``company``: SQL for a row's company. A row is ``{row}`` in all of them. What the revision did before is committed
    first, and it runs again when it is interrupted: each of its statements must allow that.
    """
    old, new = counted.format(row="OLD"), counted.format(row="NEW")
    for statement in (_TABLE, _BY_COMPANY, _CHANGED):
        op.execute(statement)
    op.execute(
        _FUNCTION.format(
            table=table,
            old=old,
            new=new,
            less=_values(amounts, "OLD", company, "-"),
            more=_values(amounts, "NEW", company, ""),
        )
    )
    for operation, condition in _TRIGGERS.items():
        name = f"count_{table}_{operation.lower()}"
        op.execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")
        when = condition.format(old=old, new=new)
        op.execute(
            f"CREATE TRIGGER {name} AFTER {operation} ON {table} FOR EACH ROW WHEN ({when})"
            f" EXECUTE FUNCTION count_{table}()"
        )
    with op.get_context().autocommit_block():
        op.execute(counting(table, amounts, counted=counted, company=company))


def counting(table: str, amounts: Mapping[str, str], *, counted: str, company: str) -> str:
    """The statement that puts the count of the rows that are there in the place of the amounts."""
    return _COUNT.format(
        table=table,
        names=", ".join(f"'{name}'" for name in amounts),
        company=company.format(row="t"),
        counted=counted.format(row="t"),
        amounts=", ".join(f"('{name}', {amount.format(row='r')})" for name, amount in amounts.items()),
    )


def _values(amounts: Mapping[str, str], row: str, company: str, sign: str) -> str:
    company_id = company.format(row=row)
    return ", ".join(f"({company_id}, '{name}', {sign}({amount.format(row=row)}))" for name, amount in amounts.items())
