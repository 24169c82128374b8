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
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LONGEST_CELL: Final = 1_000
_LONGEST_OUTCOME: Final = 500_000


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


def _load(database: Any, file: Path, tables: dict[str, str]) -> None:
    """``tables``: names for queries by sheet, of which files of a single table have one."""
    match file.suffix.lower():
        case ".csv":
            _load_csv(database, _as_utf8(file), next(iter(tables.values())))
        case ".json":
            _load_rows(database, file, next(iter(tables.values())), _rows_of_json(file))
        case _:
            from python_calamine import CalamineError, CalamineWorkbook

            try:
                workbook = CalamineWorkbook.from_path(str(file))
                for sheet, name in tables.items():
                    if sheet in workbook.sheet_names:
                        _load_rows(database, file, name, workbook.get_sheet_by_name(sheet).to_python())
            except CalamineError as problem:
                raise Refused(f"the workbook cannot be read: {problem}") from None


def _load_csv(database: Any, file: Path, name: str) -> None:
    import duckdb

    with file.open(encoding="utf-8", errors="replace", newline="") as source:
        delimiter = _delimiter(source.read(20_000).splitlines()[:2])
        source.seek(0)
        rows = csv.reader(source, delimiter=delimiter)
        try:
            width = len(next(rows, []))
            database.execute(
                f'CREATE TABLE "{name}" AS SELECT * FROM'
                " read_csv(?, header = true, skip = 0, sample_size = -1, delim = ?)",
                [str(file), delimiter],
            )
            if len(database.execute(f'DESCRIBE "{name}"').fetchall()) == width:
                return
            database.execute(f'DROP TABLE "{name}"')
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, csv.Error):
            pass
        # Rows of different lengths, quotes in the middle of cells: taken as text.
        source.seek(0)
        try:
            _load_rows(database, file, name, list(csv.reader(source, delimiter=delimiter)))
        except csv.Error as problem:
            raise Refused(f"the file cannot be read: {problem}") from None


def _delimiter(lines: list[str]) -> str:
    """What divides the first lines into most columns, all of them alike."""
    return max(",;\t|", key=lambda sign: min((line.count(sign) for line in lines), default=0))


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


def _rows_of_json(file: Path) -> list[list[Any]]:
    try:
        values = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise Refused("the file is not valid JSON") from None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise Refused("only a JSON array of objects can be queried")
    headers = list(dict.fromkeys(key for value in values for key in value))
    return [headers, *([_plain(value.get(header)) for header in headers] for value in values)]


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _load_rows(database: Any, file: Path, name: str, rows: Iterable[Sequence[Any]]) -> None:
    """Through a file: the quickest way in. Types are those of the cells, as a text of digits is no number."""
    filled = [row for row in rows if any(cell not in ("", None) for cell in row)]
    if not filled:
        return
    width = max(len(row) for row in filled)
    names = _headers(filled[0], width)
    body = [[*row, *[None] * (width - len(row))] for row in filled[1:]]
    columns: list[Sequence[Any]] = list(zip(*body, strict=True)) if body else [()] * width
    types = {header: _type(column) for header, column in zip(names, columns, strict=True)}
    written = file.with_name("rows.csv")
    with written.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target, quoting=csv.QUOTE_ALL)
        writer.writerows([["" if cell is None else _written(cell) for cell in row] for row in body])
    database.execute(
        f'CREATE TABLE "{name}" AS SELECT * FROM read_csv(?, header = false, columns = ?, auto_detect = false,'
        " delim = ',', quote = '\"', escape = '\"', null_padding = true, nullstr = '', allow_quoted_nulls = true)",
        [str(written), types],
    )
    written.unlink()


def _headers(row: Sequence[Any], width: int) -> list[str]:
    names: list[str] = []
    for place in range(width):
        cell = row[place] if place < len(row) else None
        base = " ".join(str(_written(cell)).split()) if cell not in (None, "") else f"column_{place + 1}"
        name, number = base, 1
        while name.lower() in (known.lower() for known in names):
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names


def _type(column: Sequence[Any]) -> str:
    cells = [cell for cell in column if cell is not None and cell != ""]
    kinds = {_kind(cell) for cell in cells}
    if kinds <= {"BIGINT", "DOUBLE"} and kinds:
        return "DOUBLE" if "DOUBLE" in kinds else "BIGINT"
    if kinds <= {"DATE", "TIMESTAMP"} and kinds:
        return "TIMESTAMP" if "TIMESTAMP" in kinds else "DATE"
    return kinds.pop() if len(kinds) == 1 else "VARCHAR"


def _kind(cell: Any) -> str:
    if isinstance(cell, bool):
        return "BOOLEAN"
    if isinstance(cell, int | float):
        whole = float(cell).is_integer() and abs(cell) < 2**53
        return "BIGINT" if whole else "DOUBLE"
    if isinstance(cell, datetime):
        return "TIMESTAMP"
    return "DATE" if isinstance(cell, date) else "VARCHAR"


def _written(cell: Any) -> Any:
    if isinstance(cell, float) and _kind(cell) == "BIGINT":
        return int(cell)
    return str(cell) if isinstance(cell, datetime | date | time | timedelta) else cell


if __name__ == "__main__":
    main()
