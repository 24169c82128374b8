import datetime
import io
import json
import resource
import sys
import zipfile
from pathlib import Path

import orjson
import pytest

from services.artifacts.adapters.tables import program
from services.artifacts.adapters.tables.columns import KEPT_ROWS, Budget, collect, column_name
from services.artifacts.adapters.tables.formats import Refused, read_tables

CSV = "text/csv"
JSON = "application/json"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def read(tmp_path: Path, content: bytes, kind: str):
    path = tmp_path / "file"
    path.write_bytes(content)
    return read_tables(path, kind)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", ""], "integer"),
        (["1", "2.5", "1e3"], "number"),
        (["007", "008"], "text"),
        (["true", "FALSE"], "boolean"),
        (["2026-05-04"], "date"),
        (["2026-05-04", "2026-05-04T10:00:00Z"], "datetime"),
        (["1", "x"], "text"),
        (["", " "], "empty"),
        (["1,5"], "text"),
        (["1234567890123456789012"], "text"),
    ],
)
def test_types_are_told_from_text(cells: list[str], kind: str) -> None:
    rows = [["name", "value"], *(["x", cell] for cell in cells)]
    assert collect("S", rows, Budget(), typed=False)["types"][1] == kind


def test_cells_with_types_of_their_own() -> None:
    day, moment = datetime.date(2026, 5, 4), datetime.datetime(2026, 5, 4, 10)
    sheet = collect("S", [["a", "b", "c", "d"], [1.0, 2.5, day, True], [3, "", moment, False]], Budget(), typed=True)
    assert sheet["types"] == ["integer", "number", "datetime", "boolean"]
    assert sheet["rows"] == [[1, 2.5, "2026-05-04", True], [3, None, "2026-05-04T10:00:00", False]]


def test_a_first_row_that_is_no_heading_is_a_row() -> None:
    sheet = collect("S", [["1", "x"], ["2", "y"]], Budget(), typed=False)
    assert (sheet["headers"], sheet["rows"], sheet["row_count"]) == (["A", "B"], [[1, "x"], [2, "y"]], 2)


def test_headers_are_distinct_and_rows_as_wide_as_the_widest() -> None:
    sheet = collect("S", [["a", "a", ""], ["1"], ["1", "2", "3", "4"]], Budget(), typed=False)
    assert sheet["headers"] == ["a", "a (2)", "C", "D"]
    assert sheet["rows"] == [[1, None, None, None], [1, 2, 3, 4]]


def test_all_rows_are_counted_and_some_are_kept() -> None:
    sheet = collect("S", [["a"], *(["x" * 10] for _ in range(5000))], Budget(), typed=False)
    assert (sheet["row_count"], len(sheet["rows"])) == (5000, KEPT_ROWS)
    sheet = collect("S", [["a"], *(["x" * 900] for _ in range(50))], Budget(1000), typed=False)
    assert (sheet["row_count"], len(sheet["rows"])) == (50, 2)


def test_column_names() -> None:
    assert [column_name(place) for place in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_encodings_and_separators(tmp_path: Path, encoding: str, mark: str) -> None:
    text = f'Größe{mark}note\r\n1.5{mark}"two\nlines"\r\n'
    (sheet,) = read(tmp_path, text.encode(encoding), CSV)
    assert (sheet["headers"], sheet["rows"]) == (["Größe", "note"], [[1.5, "two\nlines"]])


@pytest.mark.parametrize(
    "content", [b"{", b"[1,", b"\xff\xfe\x00", b"[" * 100_000], ids=["half", "list", "bytes", "deep"]
)
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Refused):
        read(tmp_path, content, JSON)


@pytest.mark.parametrize("content", [b"1", b'{"a": [{}]}', b'[{"a": 1}, 2]', b"null"])
def test_json_without_a_table(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content, JSON) is None


def test_whole_numbers_that_nobody_else_reads_are_text(tmp_path: Path) -> None:
    long = "1" * 400
    (sheet,) = read(tmp_path, f'[{{"a": {long}, "b": {2**63}, "c": {2**63 - 1}}}]'.encode(), JSON) or []
    assert orjson.loads(json.dumps(sheet["rows"])) == [[long, str(2**63), 2**63 - 1]]
    assert sheet["types"] == ["text", "text", "integer"]


def test_a_system_that_refuses_a_limit_of_memory_reads_tables_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def set_limit(kind: int, _: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    (tmp_path / "file").write_bytes(b"a,b\n1,2\n")
    program.main(str(tmp_path / "file"), CSV, "10", str(2**30))
    assert json.loads(capfdbinary.readouterr().out)["sheets"][0]["rows"] == [[1, 2]]


def test_a_workbook_that_is_none_or_too_large_unpacked_is_refused(tmp_path: Path) -> None:
    for content in (b"PK\x03\x04", b"", _package({"other.xml": b"x"})):
        with pytest.raises(Refused):
            read(tmp_path, content, XLSX)
    with pytest.raises(Refused, match="too large"):
        read(tmp_path, _claiming(2**31), XLSX)


def _package(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as package:
        for name, content in files.items():
            package.writestr(name, content)
    return made.getvalue()


def _claiming(size: int) -> bytes:
    """A package whose directory says that a member is that large."""
    made = bytearray(_package({"xl/workbook.xml": b"x"}))
    entry = made.index(b"PK\x01\x02")
    made[entry + 24 : entry + 28] = size.to_bytes(4, "little")
    return bytes(made)
