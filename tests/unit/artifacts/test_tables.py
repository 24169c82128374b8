"""Images, links and summaries of artifacts."""

import datetime
import json
import struct
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import orjson
import pytest

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identifiers import new_id
from libs.documents import CSV, JSON, DocumentUnreadable, Table
from services.artifacts.adapters.tables.reader import TableProcesses
from services.artifacts.adapters.tables.summary import KEPT_ROWS, SampleBudget, summarize, summarize_file
from services.artifacts.domain.images import dimensions
from services.artifacts.domain.links import LinkSigner, artifact_of, link_path
from tests.support.office_files import xlsx

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def summary(rows: list[list[Any]], budget: int = 2_000_000, *, typed: bool = False) -> dict[str, Any]:
    return summarize(Table.of("S", rows, typed=typed), SampleBudget(budget))


def summary_of_file(tmp_path: Path, content: bytes, content_type: str) -> Any:
    path = tmp_path / "file"
    path.write_bytes(content)
    return summarize_file({"path": str(path), "content_type": content_type})["sheets"]


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
def test_types_are_inferred_from_text(cells: list[str], kind: str) -> None:
    assert summary([["name", "value"], *(["x", cell] for cell in cells)])["types"][1] == kind


def test_typed_cells() -> None:
    day, moment = datetime.date(2026, 5, 4), datetime.datetime(2026, 5, 4, 10)
    sheet = summary([["a", "b", "c", "d"], [1.0, 2.5, day, True], [3, "", moment, False]], typed=True)
    assert sheet["types"] == ["integer", "number", "datetime", "boolean"]
    assert sheet["rows"] == [[1, 2.5, "2026-05-04", True], [3, None, "2026-05-04T10:00:00", False]]


def test_a_first_row_that_is_no_heading_is_a_row() -> None:
    sheet = summary([["1", "x"], ["2", "y"]])
    assert (sheet["headers"], sheet["rows"], sheet["row_count"]) == (["A", "B"], [[1, "x"], [2, "y"]], 2)


def test_headers_are_distinct_and_rows_as_wide_as_the_widest() -> None:
    sheet = summary([["a", "a", ""], ["1"], ["1", "2", "3", "4"]])
    assert sheet["headers"] == ["a", "a (2)", "C", "D"]
    assert sheet["rows"] == [[1, None, None, None], [1, 2, 3, 4]]


def test_all_rows_are_counted_and_some_are_kept() -> None:
    sheet = summary([["a"], *(["x" * 10] for _ in range(5000))])
    assert (sheet["row_count"], len(sheet["rows"])) == (5000, KEPT_ROWS)
    sheet = summary([["a"], *(["x" * 900] for _ in range(50))], budget=1000)
    assert (sheet["row_count"], len(sheet["rows"])) == (50, 2)


def test_integers_of_more_than_64_bits_are_text(tmp_path: Path) -> None:
    long = "1" * 5000
    content = f'[{{"a": {long}, "b": {2**63}, "c": {2**63 - 1}}}]'.encode()
    (sheet,) = summary_of_file(tmp_path, content, JSON)
    assert orjson.loads(json.dumps(sheet["rows"])) == [[long[:500], str(2**63), 2**63 - 1]]
    assert sheet["types"] == ["text", "text", "integer"]


def test_json_without_a_table_has_no_summary(tmp_path: Path) -> None:
    assert summary_of_file(tmp_path, b'{"a": [{}]}', JSON) is None


def test_a_workbook_of_too_many_sheets_is_refused(tmp_path: Path) -> None:
    sheets = {f"Sheet {number}": [["a"], [1]] for number in range(257)}
    with pytest.raises(DocumentUnreadable, match="more than 256 sheets"):
        summary_of_file(tmp_path, xlsx(sheets), XLSX)


async def test_summaries_are_made_in_a_process(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes("port;price\nÅlesund;7\n".encode("latin-1"))
    reader = TableProcesses(seconds=30, memory_bytes=2**30)
    (sheet,) = await reader.read(file, CSV) or []
    assert (sheet.headers, sheet.rows) == (["port", "price"], [["Ålesund", 7]])
    file.write_bytes(b"[1,")
    with pytest.raises(DocumentUnreadable, match="Invalid JSON"):
        await reader.read(file, JSON)
    file.write_text("port;price\n" + "Ålesund;7\n" * 500_000)
    with pytest.raises(DocumentUnreadable, match="took longer than"):
        await TableProcesses(seconds=0.01, memory_bytes=2**30).read(file, CSV)


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
BMP = b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, 640, -480)
OLD_BMP = b"BM" + b"\0" * 12 + struct.pack("<IHH", 12, 640, 480)
# An application segment with a picture of its own, a restart marker and filler before the frame.
JPEG = (
    b"\xff\xd8\xff\xe1" + struct.pack(">H", 40_002) + b"\xff\xc0" * 20_000
    + b"\xff\xd0\xff\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, 480, 640)
)  # fmt: skip
VP8X = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
VP8L = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 639 | 479 << 14)
VP8 = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 7 + b"\x9d\x01\x2a" + struct.pack("<HH", 640, 480)
IMAGES = [
    ("image/png", PNG),
    ("image/gif", GIF),
    ("image/bmp", BMP),
    ("image/bmp", OLD_BMP),
    ("image/jpeg", JPEG),
    ("image/webp", VP8X),
    ("image/webp", VP8L),
    ("image/webp", VP8),
]


@pytest.mark.parametrize(("content_type", "head"), IMAGES)
def test_dimensions_are_read_from_the_beginning(content_type: str, head: bytes) -> None:
    assert dimensions(content_type, head) == (640, 480)


@pytest.mark.parametrize(("content_type", "head"), IMAGES)
def test_a_beginning_that_breaks_off_says_nothing(content_type: str, head: bytes) -> None:
    for length in (*range(0, min(len(head), 40)), len(head) - 1):
        assert dimensions(content_type, head[:length]) is None


def test_what_has_no_area_is_no_image() -> None:
    assert dimensions("image/gif", b"GIF89a" + struct.pack("<HH", 0, 480)) is None
    assert dimensions("image/jpeg", b"\xff\xd8\xff\xe0\x00\x00") is None


SIGNER = LinkSigner("a secret of tests, long enough to sign")
ARTIFACT = new_id()


def test_a_link_is_good_until_it_expires() -> None:
    parameters = parse_qsl(SIGNER.query(ARTIFACT, 1000))
    SIGNER.check(ARTIFACT, parameters, 999.9)
    with pytest.raises(AuthenticationFailed, match="expired"):
        SIGNER.check(ARTIFACT, parameters, 1000)


def test_every_parameter_and_the_artifact_are_covered() -> None:
    parameters = parse_qsl(SIGNER.query(ARTIFACT, 1000))
    forged = [
        [],
        parameters[:1],
        parameters[1:],
        [*parameters, ("x", "1")],
        [*parameters, parameters[0]],
        [("expires", "2000"), parameters[1]],
        [("expires", "1000\nx"), parameters[1]],
        [parameters[0], ("signature", "é")],
        parse_qsl(LinkSigner("another secret of tests, long enough").query(ARTIFACT, 1000)),
    ]
    for attempt in forged:
        with pytest.raises(AuthenticationFailed):
            SIGNER.check(ARTIFACT, attempt, 0)
    with pytest.raises(AuthenticationFailed):
        SIGNER.check(new_id(), parameters, 0)


def test_which_artifact_a_link_was_made_for() -> None:
    assert artifact_of(f"http://x{link_path(ARTIFACT)}?expires=1") == ARTIFACT
    of_store = f"https://s3.example.com/bucket/blobs/{new_id()}/original?X-Amz-Expires=1&x-label="
    assert artifact_of(of_store + ARTIFACT) == ARTIFACT
    assert artifact_of(of_store) is None
    for other in (f"http://x/artifacts/{ARTIFACT}/", "http://x/artifacts/../content/", "", "http://[", ARTIFACT):
        assert artifact_of(other) is None
