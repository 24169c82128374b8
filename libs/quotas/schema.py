"""The table of the amounts that companies have stored, and its triggers."""

from collections.abc import Mapping
from types import ModuleType

from alembic.operations import Operations

# Each row is a change, or the merged sum of earlier changes.
_TABLE = """
    CREATE TABLE company_amounts (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_company_amounts PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        amount bigint NOT NULL,
        folded boolean NOT NULL DEFAULT false
    )
"""
_BY_COMPANY = "CREATE INDEX ix_company_amounts_company_id ON company_amounts (company_id, name)"
_CHANGED = "CREATE INDEX ix_company_amounts_changed ON company_amounts (id) WHERE NOT folded"
_FUNCTION = """
    CREATE FUNCTION count_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
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


def count_rows(
    op: Operations | ModuleType,
    table: str,
    amounts: Mapping[str, str],
    *,
    counted: str = "true",
    company: str = "{row}.company_id",
) -> None:
    """Creates the table of amounts, and triggers on ``table`` that update it.

    ``amounts`` maps the name of a limit to the SQL for a row's amount. ``counted`` is the SQL condition for the rows to
    count, and ``company`` is the SQL for a row's company. All of them refer to the row as ``{row}``.
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
        when = condition.format(old=old, new=new)
        op.execute(
            f"CREATE TRIGGER {name} AFTER {operation} ON {table} FOR EACH ROW WHEN ({when})"
            f" EXECUTE FUNCTION count_{table}()"
        )


def _values(amounts: Mapping[str, str], row: str, company: str, sign: str) -> str:
    company_id = company.format(row=row)
    return ", ".join(f"({company_id}, '{name}', {sign}({amount.format(row=row)}))" for name, amount in amounts.items())
