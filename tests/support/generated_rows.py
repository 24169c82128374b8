"""Rows for any table, made by PostgreSQL from what it knows of the columns."""

import re
from collections.abc import Mapping
from typing import Any, Final

import psycopg

_COLUMNS: Final = """
    SELECT a.attname, format_type(a.atttypid, NULL), a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
    FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_CHECKS: Final = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'"
_CHOICE: Final = re.compile(r"\((\w+) = ANY \(ARRAY\['(\w+)'")
_VALUES: Final = {
    "text": "'{column} ' || n",
    "uuid": "md5(n::text)::uuid",
    "integer": "n",
    "bigint": "n",
    "smallint": "1",
    "numeric": "n",
    "double precision": "n",
    "boolean": "false",
    "timestamp with time zone": "now() - n * interval '1 second'",
    "date": "current_date",
    "json": "'{{}}'",
    "jsonb": "'{{}}'",
    "text[]": "'{{}}'",
    "bytea": "convert_to('{column} ' || n, 'UTF8')",
}


def fill(
    connection: psycopg.Connection[Any],
    table: str,
    rows: int,
    values: Mapping[str, str] | None = None,
    *,
    first: int = 1,
) -> None:
    """Adds rows numbered from ``first`` on. ``values``: SQL by column, in which ``n`` is the row's number.

    Other columns have what the table demands: their default, null, one of the values that a check allows, or something
    that depends on ``n``. Foreign keys are not checked and triggers do not run.
    """
    given = dict(values or {})
    checks = " ".join(text for (text,) in connection.execute(_CHECKS, (table,)))
    chosen = {column: f"'{value}'" for column, value in _CHOICE.findall(checks)}
    for column, kind, demanded in connection.execute(_COLUMNS, (table,)).fetchall():
        if demanded and column not in given:
            given[column] = chosen.get(column) or _VALUES[kind].format(column=column)
    names = ", ".join(f'"{column}"' for column in given)
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(
            f"INSERT INTO {table} ({names}) SELECT {', '.join(given.values())}"
            f" FROM generate_series({first}, {first + rows - 1}) AS n".encode()
        )
