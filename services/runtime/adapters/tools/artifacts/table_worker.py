"""Runs a query on a file with DuckDB, in a sandboxed process."""

import csv
import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb

from libs.confined import answer_job
from libs.documents import CSV, JSON, CsvFormat, DocumentUnreadable, cell_text, distinct_names, is_heading, read_tables

_CONTENT_TYPES: Final = {".csv": CSV, ".json": JSON}
_COLUMN_TYPES: Final = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "datetime": "TIMESTAMP",
}
_LONGEST_CELL: Final = 1_000
_LONGEST_OUTCOME: Final = 500_000


Table = dict[str, Any]
"""A table: its ``sheet``, its ``name`` in queries, and the ``headers`` and ``types`` of its columns."""


def run_query(job: dict[str, Any]) -> dict[str, Any]:
    """Returns the query's columns and rows. Raises ``DocumentUnreadable`` if the file or query is invalid."""
    file = Path(job["file"])
    try:
        with duckdb.connect(":memory:", config=_settings(job["memory_bytes"])) as database:
            _load(database, file, job["tables"])
            for lock in ("enable_external_access = false", "lock_configuration = true"):
                database.execute(f"SET {lock}")
            return _query(database, job["sql"], job["rows"])
    except (MemoryError, duckdb.OutOfMemoryException):
        raise DocumentUnreadable(
            "The query used too much memory. Select fewer rows or columns, or aggregate."
        ) from None
    except duckdb.Error as problem:
        raise DocumentUnreadable(str(problem)[:2_000]) from None


def _settings(memory_bytes: int) -> dict[str, Any]:
    return {
        "threads": 1,
        "memory_limit": f"{memory_bytes // 4}B",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
        # A relative path, because queries and errors show it.
        "home_directory": ".",
        "extension_directory": ".",
        "secret_directory": ".",
    }


def _query(database: Any, sql: str, most: int) -> dict[str, Any]:
    statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise DocumentUnreadable("Only a single SELECT is allowed.")
    result = database.execute(statements[0])
    rows = result.fetchmany(most + 1)
    columns = [column[0] for column in result.description]
    shown: list[list[Any]] = []
    size = 0
    for row in rows[:most]:
        cells = [_shown(cell) for cell in row]
        size += sum(len(str(cell)) for cell in cells)
        if size > _LONGEST_OUTCOME:
            break
        shown.append(cells)
    return {"columns": columns, "rows": shown, "more": len(rows) > len(shown)}


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value if not isinstance(value, int) or abs(value) < 2**53 else str(value)
    if isinstance(value, Decimal | float):
        number = float(value)
        return number if number - number == 0 else str(value)
    return str(value)[:_LONGEST_CELL]


def _load(database: Any, file: Path, tables: list[Table]) -> None:
    content_type = _CONTENT_TYPES.get(file.suffix, "")
    if content_type == CSV and tables and _load_csv(database, file, tables[0]):
        return
    found = read_tables(file, content_type)
    if found is None:
        raise DocumentUnreadable("Only a JSON array of objects can be queried.")
    by_sheet = {table["sheet"]: table for table in tables}
    for each in found:
        if table := by_sheet.get(each.name):
            _load_rows(database, file.with_name("rows.csv"), table, each.rows)


def _load_csv(database: Any, file: Path, table: Table) -> bool:
    """Loads the CSV file directly, which is fastest. Returns False if DuckDB can't read it."""
    form = CsvFormat.of(file)
    first = next(form.rows(file), [])
    if form.encoding != "utf-8-sig" or form.dialect.declared or not first:
        return False
    try:
        _create(database, file, table, delimiter=form.dialect.delimiter, heading=is_heading(first))
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:
        # The rows have different lengths, or cells contain quotes.
        return False
    return True


def _load_rows(database: Any, written: Path, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    """Loads rows through a temporary CSV file, which is faster than inserting them."""
    width = len(table["headers"])
    with written.open("w", encoding="utf-8", errors="replace", newline="") as target:
        writer = csv.writer(target, quoting=csv.QUOTE_ALL)
        for row in rows:
            cells = [_written(cell) for cell in row[:width]]
            writer.writerow(cells + [""] * (width - len(cells)))
    _create(database, written, table, delimiter=",", heading=False)
    written.unlink()


def _create(database: Any, file: Path, table: Table, *, delimiter: str, heading: bool) -> None:
    # DuckDB's column names are case-insensitive.
    names = distinct_names(table["headers"], str.lower)
    kinds = [_COLUMN_TYPES.get(kind, "VARCHAR") for kind in table["types"]]
    statement = (
        f'CREATE TABLE "{table["name"]}" AS SELECT * FROM read_csv(?, auto_detect = false, columns = ?, header = ?,'
        " delim = ?, quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = true)"
    )
    for types in (kinds, ["VARCHAR"] * len(names)):
        try:
            # Types are inferred from the first rows, so a later row may not match them.
            database.execute(statement, [str(file), dict(zip(names, types, strict=True)), heading, delimiter])
            return
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as problem:
            unfit = problem
    raise unfit


def _written(cell: Any) -> Any:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    if isinstance(cell, timedelta):
        return cell_text(cell)
    return json.dumps(cell) if isinstance(cell, dict | list) else cell


if __name__ == "__main__":
    answer_job(run_query)
