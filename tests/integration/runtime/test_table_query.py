"""`table_query`: real queries in real processes, and what hostile ones get."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from libs.confined import JobRefused
from libs.contracts.resources.artifacts import Artifact, Sheet
from libs.documents import DocumentUnreadable
from services.runtime.adapters.tools.artifacts import table_query, table_worker
from services.runtime.adapters.tools.artifacts.table_query import QueryLimits, TableQuery
from services.runtime.domain.tools import ToolContext, ToolFailed
from tests.support.agent_fakes import CALLER
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.waiting import until

SALES = "month,region,sold,price\n2025-01,North,10,2.5\n2025-02,North,20,2.5\n2025-01,South,5,4\n"
SALES_COLUMNS = "month text, region text, sold integer, price number"
CONTEXT = ToolContext("call", "turn", "session", CALLER)


def sheet(name: str = "Sheet1", columns: str = "") -> Sheet:
    """Its description by the artifacts service; ``columns`` as `name type, name type`."""
    pairs = [column.rsplit(" ", 1) for column in columns.split(", ")]
    headers, types = [name for name, _ in pairs], [kind for _, kind in pairs]
    return Sheet(name=name, headers=headers, types=types, rows=[], row_count=0)


class Asked:
    """One file and the tool to query it."""

    def __init__(self, name: str, content: bytes | str, *sheets: Sheet, limits: QueryLimits | None = None) -> None:
        self.artifacts = FakeArtifacts()
        tables = sheets or (sheet(columns=SALES_COLUMNS),)
        self.file: Artifact = self.artifacts.put(name, content, tables=tables)
        self.tool = TableQuery(self.artifacts, limits)

    async def ask(self, sql: str) -> str:
        return (await self.tool.call({"artifact": self.file.artifact_id, "sql": sql}, CONTEXT)).text

    async def refusal(self, sql: str) -> str:
        with pytest.raises(ToolFailed) as caught:
            await self.ask(sql)
        return str(caught.value)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries run without a process of their own, whose start takes most of the time."""

    async def run(_module: str, job: dict[str, Any], *, files: dict[str, Path], **_limits: Any) -> dict[str, Any]:
        try:
            outcome: dict[str, Any] = table_worker.run_query({**job, "file": str(files[job["file"]])})
        except DocumentUnreadable as problem:
            raise JobRefused(str(problem)) from None
        return outcome

    monkeypatch.setattr(table_query, "run_confined", run)


@pytest.fixture
def sales() -> Asked:
    return Asked("Sales 2025.csv", SALES)


def workbook(**sheets: list[list[Any]]) -> bytes:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True, "default_date_format": "yyyy-mm-dd"}) as book:
        for name, rows in sheets.items():
            page = book.add_worksheet(name)
            for index, row in enumerate(rows):
                page.write_row(index, 0, row)
    return file.getvalue()


async def test_a_csv_file_is_queried(sales: Asked) -> None:
    by_region = await sales.ask("SELECT region, sum(sold * price) AS turnover FROM sheet1 GROUP BY region ORDER BY 1")
    assert by_region == "region | turnover\nNorth | 75.0\nSouth | 20.0\n(2 rows)"
    assert "sold | BIGINT" in await sales.ask("DESCRIBE sheet1")
    assert "sheet1" in await sales.ask("show tables")
    by_name = await sales.tool.call({"artifact": "sales 2025.CSV", "sql": "SELECT 1 AS one"}, CONTEXT)
    assert by_name.text == "one\n1\n(1 row)"


@pytest.mark.usefixtures("in_this_process")
async def test_a_workbook_is_queried_sheet_by_sheet() -> None:
    rows = [["Day", "No.", "Sold", None], [date(2025, 3, 1), "007", 3, None], [date(2025, 3, 2), "008", 4.5, "=1+1"]]
    content = workbook(**{"Q1 2025": rows, "Other": [["a", "A"], [1, 2]], "Bare": [[1, 2], [3, 4]]})
    book = Asked(
        "b.xlsx",
        content,
        sheet("Q1 2025", "Day date, No. text, Sold number, D text"),
        sheet("Other", "a integer, A integer"),
        sheet("Bare", "A integer, B integer"),
        sheet("Gone", "x text"),
    )
    assert await book.ask("SELECT * FROM q1_2025") == (
        "Day | No. | Sold | D\n2025-03-01 | 007 | 3.0 | \n2025-03-02 | 008 | 4.5 | 0\n(2 rows)"
    )
    assert "a | A (2)\n1 | 2" in await book.ask("FROM other")
    assert await book.ask("SELECT sum(B) AS total FROM bare") == "total\n6\n(1 row)"


@pytest.mark.usefixtures("in_this_process")
async def test_json_is_queried() -> None:
    people = '[{"name": "Ada", "age": 36}, {"name": "Bob", "tags": ["x"]}]'
    asked = Asked("p.json", people, sheet(columns="name text, age integer, tags json"))
    assert 'Bob |  | ["x"]' in await asked.ask("SELECT * FROM sheet1")
    assert await asked.ask("SELECT avg(age) AS mean FROM sheet1") == "mean\n36.0\n(1 row)"


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("content", "columns", "answer"),
    [
        ("Stra\u00dfe;M\u00fcnchen\na;b\n".encode("cp1252"), "Stra\u00dfe text, M\u00fcnchen text", "a | b"),
        ("\u00c4,\u00d6\na,b\n".encode("utf-16"), "\u00c4 text, \u00d6 text", "a | b"),
        (b"\xef\xbb\xbfa,b\n1,2\n", "a integer, b integer", "1 | 2"),
        (b'a,b\n1,2\n3\n"x"y,4,5\n', "a text, b text", "1 | 2\n3 | \nxy | 4"),
        (b"a,b\n1,2\n3,not a number\n", "a integer, b integer", "1 | 2\n3 | not a number"),
        (b"1;2\n3;4\n", "A integer, B integer", "1 | 2\n3 | 4"),
        (b"a,b\n", "a empty, b empty", "a | b\n(0 rows)"),
        (b"\n\na,b\n1,2\n", "a integer, b integer", "1 | 2\n(1 row)"),
        ("Preis \u20ac;b\n1;2\n".encode("cp1252"), "Preis \u20ac integer, b integer", "1 | 2\n(1 row)"),
        (b'a,b\n"x, ""y""",2\n', "a text, b integer", 'x, "y" | 2'),
        (b"d,t\n2025-01-02,2025-01-02T03:04:05\n", "d date, t datetime", "2025-01-02 | 2025-01-02 03:04:05"),
    ],
)
async def test_odd_text_is_queried(content: bytes, columns: str, answer: str) -> None:
    assert answer in await Asked("s.csv", content, sheet(columns=columns)).ask("SELECT * FROM sheet1")


NOT_THE_FILE = """
    SELECT * FROM read_text('/etc/passwd')
    SELECT * FROM read_blob('/proc/self/environ')
    SELECT * FROM read_csv('/etc/passwd')
    SELECT * FROM '/etc/passwd'
    SELECT * FROM read_csv('file.csv')
    SELECT * FROM glob('/*')
    SELECT * FROM sniff_csv('/etc/passwd')
    SELECT * FROM parquet_scan('https://example.com/x')
    SELECT * FROM read_json_auto('http://127.0.0.1:1/')
    SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')
    SELECT * FROM duckdb_secrets()
    SELECT getenv('HOME')
    SELECT * FROM job
    WITH x AS (SELECT * FROM read_text('/etc/hosts')) SELECT * FROM x
"""
NO_SELECTS = """
    COPY sheet1 TO '/tmp/aes-escaped.csv' | COPY (SELECT 1) TO 'escaped.csv' | EXPORT DATABASE '/tmp/aes-escaped'
    ATTACH '/tmp/aes-escaped.db' AS other | INSTALL httpfs | FORCE INSTALL httpfs FROM community | LOAD httpfs
    LOAD '/tmp/x.duckdb_extension' | SET enable_external_access = true | RESET lock_configuration
    PRAGMA enable_external_access | CREATE TABLE x AS SELECT 1 | CREATE SECRET (TYPE s3)
    INSERT INTO sheet1 SELECT * FROM sheet1 | UPDATE sheet1 SET sold = 0 | DELETE FROM sheet1 | DROP TABLE sheet1
    CALL pragma_version() | EXPLAIN ANALYZE SELECT 1 | CHECKPOINT | SELECT 1; SELECT 2 | SELECT 1; DROP TABLE sheet1
    -- nothing | SELECT | VACUUM | BEGIN | IMPORT DATABASE '/tmp' | DETACH memory | USE memory | PREPARE x AS SELECT 1
"""


@pytest.mark.usefixtures("in_this_process")
async def test_nothing_but_the_file_can_be_read(sales: Asked) -> None:
    for sql in NOT_THE_FILE.strip().splitlines():
        refusal = await sales.refusal(sql)
        assert "root:" not in refusal, sql
        assert "localhost" not in refusal, sql


@pytest.mark.usefixtures("in_this_process")
async def test_only_a_single_select_is_run(sales: Asked, tmp_path: Path) -> None:
    assert await sales.ask("FROM sheet1 SELECT region LIMIT 1") == "region\nNorth\n(1 row)"
    for sql in ["", *NO_SELECTS.replace("\n", "|").split("|")]:
        assert await sales.refusal(sql.replace("/tmp", str(tmp_path))), sql
    assert _files(tmp_path) == []


@pytest.mark.parametrize(
    ("sql", "seconds"),
    [
        ("SELECT list(i) FROM range(200000000) t(i)", 3),
        ("SELECT repeat('x', 2000000000) || repeat('y', 2000000000)", 3),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r", 1),
    ],
)
async def test_queries_beyond_the_limits_are_stopped(sql: str, seconds: int) -> None:
    small = Asked("s.csv", SALES, limits=QueryLimits(seconds=seconds, memory_bytes=800_000_000))
    assert "memory" in await small.refusal(sql)


async def test_a_process_that_hangs_is_stopped_when_its_time_is_over(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    slow = Asked("s.csv", SALES, limits=QueryLimits(seconds=1))
    asking = asyncio.create_task(slow.refusal("SELECT count(*) FROM range(100000000000) a, range(1000) b"))
    # With its file it has started: a process that hangs before that is given a minute.
    await until(lambda: list(tmp_path.glob("aes-confined-*/file.csv")))
    [process] = _children(tmp_path)
    # A stopped process uses none of the processor time that the system allows it: only the tool's own limit ends it.
    os.kill(int(process), signal.SIGSTOP)
    assert "time" in await asking
    assert _children(tmp_path) == []


async def test_no_answer_shows_where_the_file_is(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sales = Asked("s.csv", SALES)
    assert tmp_path.name not in await sales.refusal("FROM duckdb_secrets()") + await sales.refusal(
        "FROM read_text('x')"
    )
    assert tmp_path.name not in await sales.ask("SELECT * FROM duckdb_settings()")


@pytest.mark.usefixtures("in_this_process")
async def test_long_results_are_cut() -> None:
    many = Asked("s.csv", SALES, limits=QueryLimits(rows=3))
    told = await many.ask("SELECT range AS n FROM range(10)")
    assert told == "n\n0\n1\n2\n(the first 3 rows of the result)"
    assert len(await many.ask("SELECT repeat('x', 100000) AS wide")) < 1_000
    assert "(3 rows)" in await many.ask("SELECT range AS n FROM range(3)")


@pytest.mark.usefixtures("in_this_process")
async def test_names_of_sheets_and_columns_are_no_code() -> None:
    columns = 'a"; DROP TABLE x; -- integer, b integer'
    nasty = Asked("n.csv", 'a"; DROP TABLE x; --,b\n1,2\n', sheet('x"; DROP TABLE y; --', columns))
    assert "1 | 2" in await nasty.ask("SELECT * FROM x_drop_table_y")
    other = Asked("../../etc/passwd.csv", SALES)
    assert "North" in await other.ask("SELECT * FROM sheet1")


@pytest.mark.parametrize(
    ("name", "content"),
    [("b.xlsx", b"PK\x03\x04 not a workbook"), ("j.json", b"{}"), ("j.json", b"[" * 100_000), ("b.xlsx", b"")],
)
async def test_a_file_that_cannot_be_read_is_told_of(name: str, content: bytes) -> None:
    await Asked(name, content).refusal("SELECT 1")


async def test_other_files_and_other_sessions_are_refused(sales: Asked) -> None:
    text = sales.artifacts.put("t.txt", "text")
    elsewhere = sales.artifacts.put("e.csv", SALES, session_id="another", tables=[sheet(columns="a text")])
    for artifact, said in (
        (text.artifact_id, "isn't a table"),
        (elsewhere.artifact_id, "no artifact with this ID"),
        ("e.csv", "Sales 2025.csv"),
    ):
        with pytest.raises(ToolFailed, match=said):
            await sales.tool.call({"artifact": artifact, "sql": "SELECT 1"}, CONTEXT)


async def test_a_cancelled_query_leaves_no_process_and_no_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    slow = Asked("s.csv", SALES)
    asking = asyncio.create_task(slow.ask("SELECT count(*) FROM range(100000000000) a, range(1000) b"))
    await until(lambda: _children(tmp_path))
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (_children(tmp_path), _files(tmp_path)) == ([], [])


async def test_long_queries_of_one_company_leave_room_for_another() -> None:
    file = Asked("s.csv", SALES, limits=QueryLimits(seconds=60))
    slow = [asyncio.create_task(file.ask("SELECT count(*) FROM range(100000000000) a, range(1000) b")) for _ in "12"]
    await asyncio.sleep(0)
    other = ToolContext("call", "turn", "session", CALLER.model_copy(update={"company_id": "another"}))
    answer = await file.tool.call({"artifact": file.file.artifact_id, "sql": "SELECT 1 AS one"}, other)
    assert answer.text == "one\n1\n(1 row)"
    assert not any(each.done() for each in slow)
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


def _children(folder: Path) -> list[str]:
    """Processes that work below that directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(process.name)
        except OSError:
            continue
    return found


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())
