"""A file is the same table in knowledge, as an artifact and in a query."""

import datetime
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from libs.documents import CSV, JSON, DocumentEncrypted, DocumentUnreadable, read_tables
from services.artifacts.adapters.tables.summary import summarize_file
from services.ingestion.adapters.parsing.reader import read_file
from services.ingestion.domain.parsing import Unparsable
from tests.support.office_files import xls

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
XLS = "application/vnd.ms-excel"
Both = Callable[[bytes, str], tuple[list[str], list[list[Any]], list[str]]]


@pytest.fixture
def both(tmp_path: Path) -> Both:
    def read(content: bytes, kind: str) -> tuple[list[str], list[list[Any]], list[str]]:
        """Headings and rows of the only table of an artifact, and the rows as knowledge."""
        path = tmp_path / "file"
        path.write_bytes(content)
        [sheet] = summarize_file({"path": str(path), "content_type": kind})["sheets"]
        document = read_file(path, "file", kind)
        return sheet["headers"], sheet["rows"], document.text.splitlines()

    return read


# ruff: noqa: RUF001
TEXTS = {
    "gbk": "城市,天气\n北京,今天的天气很好我们去公园\n上海,明天会下雨请带上雨伞\n",
    "big5": "城市,天氣\n臺北,今天的天氣很好我們去公園\n高雄,明天會下雨請帶上雨傘\n",
    "shift_jis": "都市,天気\n東京,きょうはとてもよい天気です\n大阪,あしたは雨が降るでしょう\n",
    "euc_kr": "도시,날씨\n서울,오늘은 날씨가 아주 좋습니다\n부산,내일은 비가 올 것입니다\n",
    "cp1251": "город,погода\nМосква,сегодня очень хорошая погода\nКазань,завтра будет сильный дождь\n",
    "cp1250": "miasto,pogoda\nŁódź,dziś świeci słońce i jest ciepło\nGdańsk,jutro będą ulewy źle się żegluje\n",
    "utf-16-le": "town,weather\nOslo,fine\nBergen,rain\n",
    "utf-16-be": "town,weather\nOslo,fine\nBergen,rain\n",
    "utf-32": "town,weather\nOslo,fine\nBergen,rain\n",
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_encodings(both: Both, encoding: str) -> None:
    heading, *rows = (line.split(",") for line in TEXTS[encoding].splitlines())

    headers, table, lines = both(TEXTS[encoding].encode(encoding), CSV)

    assert (headers, table) == (heading, rows)
    assert lines == [f"{heading[0]}: {town}, {heading[1]}: {weather}" for town, weather in rows]


RC4 = b"\x01\x00\x01\x00\x01\x00" + bytes(48)
XOR = b"\x00\x00\x12\x34\x56\x78"


@pytest.mark.parametrize("protection", [RC4, XOR], ids=["RC4", "XOR"])
def test_encrypted_workbooks_are_called_so(tmp_path: Path, protection: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(xls([("name", "age"), ("Bo", 4.5)], protection=protection))
    with pytest.raises(DocumentEncrypted):
        list(read_tables(path, XLS) or ())
    with pytest.raises(Unparsable) as refused:
        read_file(path, "file", XLS)
    assert refused.value.code == "encrypted"


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(32)) * 100)
    with pytest.raises(DocumentUnreadable, match="binary"):
        list(read_tables(path, CSV) or ())
    with pytest.raises(Unparsable, match="binary"):
        read_file(path, "file", CSV)


@pytest.mark.parametrize(
    ("content", "headers", "rows"),
    [
        ("sep=;\nname;town\nZoë;Köln\n", ["name", "town"], [["Zoë", "Köln"]]),
        ("\ufeffsep=\t\r\nname\ttown\r\nZoë\tKöln\r\n", ["name", "town"], [["Zoë", "Köln"]]),
        (
            "Datum;Betrag, EUR;Saldo, EUR\n01.02.2025;1.234,50;2.000,00\n",
            ["Datum", "Betrag, EUR", "Saldo, EUR"],
            [["01.02.2025", "1.234,50", "2.000,00"]],
        ),
        ("1,5;2,5;3,5\n4,5;5,5;6,5\n", ["A", "B", "C"], [["1,5", "2,5", "3,5"], ["4,5", "5,5", "6,5"]]),
        ('name,note\nZoë,"a; b; c"\nBo,"d; e; f"\n', ["name", "note"], [["Zoë", "a; b; c"], ["Bo", "d; e; f"]]),
        ("name\nZoë\nBo\n", ["name"], [["Zoë"], ["Bo"]]),
        # Decided: years that follow each other are names beside one; a title and a second line are rows.
        ("Country,2019,2020,2021\nNorway,a,b,c\n", ["Country", "2019", "2020", "2021"], [["Norway", "a", "b", "c"]]),
        ("Norway,1905\nIceland,1944\n", ["A", "B"], [["Norway", 1905], ["Iceland", 1944]]),
        ("Report,,\nname,town,\nZoë,Köln,x\n", ["A", "B", "C"],
         [["Report", None, None], ["name", "town", None], ["Zoë", "Köln", "x"]]),
        ("name,size\ntext,cm\nZoë,170\n", ["name", "size"], [["text", "cm"], ["Zoë", "170"]]),
        ("01.02.2025;1.234,50\n02.02.2025;2,50\n", ["A", "B"],
         [["01.02.2025", "1.234,50"], ["02.02.2025", "2,50"]]),
        ("day,day\nMonday,Tuesday\n", ["day", "day (2)"], [["Monday", "Tuesday"]]),
    ],
)  # fmt: skip
def test_separators_and_headings(both: Both, content: str, headers: list[str], rows: list[list[Any]]) -> None:
    found, table, lines = both(content.encode(), CSV)

    assert (found, table) == (headers, rows)
    named = headers[0] not in ("A",)
    assert len(lines) == len(rows)
    assert lines[0].startswith(f"{headers[0]}: {rows[0][0]}" if named else str(rows[0][0]))


@pytest.mark.parametrize(
    ("content", "row", "line"),
    [
        (b'[{"n": 123456789012345678901234567890}]', ["123456789012345678901234567890"],
         "n: 123456789012345678901234567890"),
        (b'[{"n": NaN}]', ["nan"], "n: NaN"),
        (b'{"n": 1}\n{"n": 2}\n', [1], "n: 1"),
        ('[{"n": "Köln"}]'.encode("latin-1"), ["Köln"], "n: Köln"),
        ('[{"n": "Köln"}]'.encode("utf-16-le"), ["Köln"], "n: Köln"),
        (rb'[{"n": "a\ud83db"}]', ["a\ufffdb"], "n: a\ufffdb"),
        (rb'[{"n": "\ud83d\ude00"}]', ["😀"], "n: 😀"),
    ],
)  # fmt: skip
def test_json(both: Both, content: bytes, row: list[Any], line: str) -> None:
    headers, rows, lines = both(content, JSON)

    assert (headers, rows[0], lines[0]) == (["n"], row, line)


def test_times_and_years_of_workbooks(both: Both) -> None:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"in_memory": True}) as book:
        page = book.add_worksheet()
        page.write_row(0, 0, ["time", 2019, 2020])
        for row, (time, form) in enumerate(
            [
                (datetime.time(7, 30), "hh:mm"),
                (datetime.timedelta(hours=6), "[h]:mm:ss"),
                (datetime.date(2026, 5, 4), "yyyy-mm-dd"),
            ],
            1,
        ):
            page.write_datetime(row, 0, time, book.add_format({"num_format": form}))

    headers, rows, lines = both(made.getvalue(), XLSX)

    assert headers == ["time", "2019", "2020"]
    assert [row[0] for row in rows] == ["07:30:00", "06:00:00", "2026-05-04"]
    assert lines == ["time: 07:30:00", "time: 06:00:00", "time: 2026-05-04"]


def test_a_declared_dimension_is_no_number_of_rows(both: Both) -> None:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"in_memory": True}) as book:
        book.add_worksheet().write_row(0, 0, ["a", "b", "c"])
        book.get_worksheet_by_name("Sheet1").write_row(1, 0, ["x", "y", "z"])
    claiming = io.BytesIO()
    with zipfile.ZipFile(made) as package, zipfile.ZipFile(claiming, "w") as changed:
        for name in package.namelist():
            changed.writestr(name, package.read(name).replace(b'ref="A1:C2"', b'ref="A1:C1048576"'))

    assert both(claiming.getvalue(), XLSX) == (["a", "b", "c"], [["x", "y", "z"]], ["a: x, b: y, c: z"])
