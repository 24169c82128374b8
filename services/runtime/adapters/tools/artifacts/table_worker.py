"""Runs one query over one file in a process of its own, which can do nothing else; started as a script.

Reads a job from its standard input and writes the outcome to its standard output, both as JSON. Nothing of this
repository is imported: what a hostile file or query could break is this process alone.
"""

from __future__ import annotations

import codecs
import csv
import json
import resource
import sys
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TYPES: Final = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "datetime": "TIMESTAMP",
}
_LONGEST_CELL: Final = 1_000
_LONGEST_OUTCOME: Final = 500_000


Table = dict[str, Any]
"""``sheet`` it stands on, ``name`` for queries, ``headers`` and ``types`` of its columns."""


class Refused(Exception):
    """The job cannot be done; the message is for whoever asked."""


def main() -> None:
    job = json.loads(sys.stdin.read())
    _limit(job["memory_bytes"], job["seconds"])
    sys.stdout.write(json.dumps(carry_out(job)))


def carry_out(job: dict[str, Any]) -> dict[str, Any]:
    """Columns and rows, or the ``error`` to tell."""
    try:
        return _answer(job)
    except Refused as problem:
        return {"error": str(problem)}
    except MemoryError:
        return {"error": "this needs too much memory"}


def _limit(memory: int, seconds: int) -> None:
    """Also holds when whoever started this process is gone."""
    if sys.platform == "linux":
        # Elsewhere it is refused, and the database's own limit has to do.
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    import duckdb

    database = duckdb.connect(":memory:", config=_settings(job))
    try:
        _load(database, Path(job["file"]), job["tables"])
        for lock in ("enable_external_access = false", "lock_configuration = true"):
            database.execute(f"SET {lock}")
        return _query(database, job["sql"], job["rows"])
    except duckdb.OutOfMemoryException:
        raise Refused("this needs too much memory: select fewer rows or columns, or aggregate") from None
    except duckdb.Error as problem:
        raise Refused(str(problem)[:2_000]) from None


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    here = str(Path(job["file"]).parent)
    return {
        "threads": 1,
        "memory_limit": f"{job['memory_bytes'] // 4}B",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
        "home_directory": here,
        "extension_directory": here,
        "secret_directory": here,
    }


def _query(database: Any, sql: str, most: int) -> dict[str, Any]:
    import duckdb

    statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Refused("only a single SELECT is allowed")
    result = database.execute(statements[0])
    rows = result.fetchmany(most + 1)
    columns = [column[0] for column in result.description]
    told: list[list[Any]] = []
    size = 0
    for row in rows[:most]:
        cells = [_told(cell) for cell in row]
        size += sum(len(str(cell)) for cell in cells)
        if size > _LONGEST_OUTCOME:
            break
        told.append(cells)
    return {"columns": columns, "rows": told, "more": len(rows) > len(told)}


def _told(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value if not isinstance(value, int) or abs(value) < 2**53 else str(value)
    if isinstance(value, Decimal | float):
        number = float(value)
        return number if number - number == 0 else str(value)
    return str(value)[:_LONGEST_CELL]


def _load(database: Any, file: Path, tables: list[Table]) -> None:
    """Files of a single table have one of these."""
    match file.suffix.lower():
        case ".csv":
            _load_csv(database, _as_utf8(file), tables[0])
        case ".json":
            _load_rows(database, file, tables[0], _rows_of_json(file, tables[0]["headers"]))
        case _:
            _load_workbook(database, file, tables)


def _load_workbook(database: Any, file: Path, tables: list[Table]) -> None:
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        workbook = CalamineWorkbook.from_path(str(file))
        for table in tables:
            if table["sheet"] in workbook.sheet_names:
                rows = workbook.get_sheet_by_name(table["sheet"]).iter_rows()
                _load_rows(database, file, table, _without_heading(rows, table["headers"]))
    except CalamineError as problem:
        raise Refused(f"the workbook cannot be read: {problem}") from None


def _load_csv(database: Any, file: Path, table: Table) -> None:
    import duckdb

    with file.open(encoding="utf-8", errors="replace", newline="") as source:
        delimiter = _delimiter(source.read(65_536).splitlines()[:20])
        source.seek(0)
        try:
            first = next(csv.reader(source, delimiter=delimiter), [])
            heading = _is_heading(first, table["headers"])
            _create(database, file, table, delimiter=delimiter, heading=heading)
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, csv.Error):
            # Rows of different lengths, quotes in the middle of cells.
            source.seek(0)
            rows = csv.reader(source, delimiter=delimiter)
            try:
                _load_rows(database, file, table, _without_heading(rows, table["headers"]))
            except csv.Error as problem:
                raise Refused(f"the file cannot be read: {problem}") from None


def _delimiter(lines: list[str]) -> str:
    """What occurs equally often in most lines."""

    def steadiness(sign: str) -> tuple[int, int]:
        counts = [line.count(sign) for line in lines if line.strip()]
        usual = max(counts, key=counts.count, default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max(",;\t|", key=steadiness)


def _as_utf8(file: Path) -> Path:
    raw = file.read_bytes()
    known = next((encoding for mark, encoding in _BOMS if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(known)
        if known == "utf-8":
            return file
    except UnicodeDecodeError:
        text = raw.decode("cp1252", errors="replace")
    written = file.with_suffix(".utf8.csv")
    written.write_text(text, encoding="utf-8")
    return written


def _rows_of_json(file: Path, headers: list[str]) -> list[list[Any]]:
    try:
        values = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise Refused("the file is not valid JSON") from None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise Refused("only a JSON array of objects can be queried")
    names = list(dict.fromkeys(name for value in values for name in value))[: len(headers)]
    return [[value.get(name) for name in names] for value in values]


def _without_heading(rows: Iterable[Sequence[Any]], headers: list[str]) -> Iterator[Sequence[Any]]:
    filled = (row for row in rows if any(cell not in ("", None) for cell in row))
    first = next(filled, None)
    if first is not None and not _is_heading(first, headers):
        yield first
    yield from filled


def _is_heading(row: Sequence[Any], headers: list[str]) -> bool:
    """Whether the columns have their names from this row, where equal names are told apart by numbers."""
    named = [(" ".join(str(cell).split()), header) for cell, header in zip(row, headers, strict=False) if cell]
    return bool(named) and all(header == text or header.startswith(f"{text} (") for text, header in named)


def _load_rows(database: Any, file: Path, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    """Through a file: the quickest way in."""
    width = len(table["headers"])
    written = file.with_name("rows.csv")
    with written.open("w", encoding="utf-8", errors="replace", newline="") as target:
        writer = csv.writer(target, quoting=csv.QUOTE_ALL)
        for row in rows:
            cells = [_written(cell) for cell in row[:width]]
            writer.writerow(cells + [""] * (width - len(cells)))
    _create(database, written, table, delimiter=",", heading=False)
    written.unlink()


def _create(database: Any, file: Path, table: Table, *, delimiter: str, heading: bool) -> None:
    import duckdb

    names = _distinct(table["headers"])
    kinds = [_TYPES.get(kind, "VARCHAR") for kind in table["types"]]
    statement = (
        f'CREATE TABLE "{table["name"]}" AS SELECT * FROM read_csv(?, auto_detect = false, columns = ?, header = ?,'
        " delim = ?, quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = true)"
    )
    for types in (kinds, ["VARCHAR"] * len(names)):
        try:
            # Types were told from the first rows; a later one may hold something else.
            database.execute(statement, [str(file), dict(zip(names, types, strict=True)), heading, delimiter])
            return
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as problem:
            unfit = problem
    raise unfit


def _distinct(headers: list[str]) -> list[str]:
    """Names of columns are the same in any case here."""
    names: list[str] = []
    for header in headers:
        name, number = header, 1
        while name.lower() in {known.lower() for known in names}:
            number += 1
            name = f"{header} ({number})"
        names.append(name)
    return names


def _written(cell: Any) -> Any:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    return json.dumps(cell) if isinstance(cell, dict | list) else cell


if __name__ == "__main__":
    main()
