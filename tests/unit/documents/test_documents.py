"""Texts of documents in any encoding."""

import io
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from libs.documents import (
    CSV,
    JSON,
    DocumentUnreadable,
    column_name,
    decode,
    distinct_names,
    read_tables,
)

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def read(tmp_path: Path, content: bytes, kind: str) -> list[tuple[list[str], list[Any]]] | None:
    """Headers and rows of each table."""
    path = tmp_path / "file"
    path.write_bytes(content)
    tables = read_tables(path, kind)
    return None if tables is None else [(table.headers, list(table.rows)) for table in tables]


def test_column_names() -> None:
    assert [column_name(place) for place in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    assert distinct_names(["a", "A", "a"]) == ["a", "A", "a (2)"]
    assert distinct_names(["a", "A", "a"], str.lower) == ["a", "A (2)", "a (3)"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_encodings_and_separators(tmp_path: Path, encoding: str, mark: str) -> None:
    text = f'Größe{mark}note\r\n1.5{mark}"two\nlines"\r\n'
    assert read(tmp_path, text.encode(encoding), CSV) == [(["Größe", "note"], [["1.5", "two\nlines"]])]


def test_blank_lines_are_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, b"\n,\na,b\n\n1,2\n , \n", CSV) == [(["a", "b"], [["1", "2"]])]
    assert read(tmp_path, b"\n", CSV) == [([], [])]


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentUnreadable, match="bytes that aren't text"):
        read(tmp_path, b"\xff\xfea\x00\x00\xd8,\x00", CSV)


def test_json_objects_are_rows(tmp_path: Path) -> None:
    content = b'[{"a": 1, "b": null}, {"c": [2]}]'
    assert read(tmp_path, content, JSON) == [(["a", "b", "c"], [[1, None, None], [None, None, [2]]])]


@pytest.mark.parametrize("content", [b"1", b'{"a": [{}]}', b'[{"a": 1}, 2]', b"null"])
def test_json_without_a_table(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content, JSON) is None


@pytest.mark.parametrize(
    "content", [b"{", b"[1,", b"\xff\xfe\x00", b"[" * 100_000], ids=["half", "list", "bytes", "deep"]
)
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DocumentUnreadable) as refusal:
        read(tmp_path, content, JSON)
    assert "recursion" not in str(refusal.value)
    assert "codec" not in str(refusal.value)


def test_numbers_longer_than_python_converts_are_text(tmp_path: Path) -> None:
    [(_, rows)] = read(tmp_path, b'[{"a": %s}]' % (b"1" * 5000), JSON) or []
    assert rows == [["1" * 5000]]


def test_a_workbook_that_is_none_or_too_large_unpacked_is_refused(tmp_path: Path) -> None:
    for content in (b"PK\x03\x04", b"", _package({"other.xml": b"x"})):
        with pytest.raises(DocumentUnreadable):
            read(tmp_path, content, XLSX)
    with pytest.raises(DocumentUnreadable, match="too large"):
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


GERMAN = "Grüße aus Köln: die Straße kostet 5 £"
RUSSIAN = "Привет, как дела? Это обычный русский текст, по которому узнают кодировку."
POLISH = "Zażółć gęślą jaźń, to jest zwykły polski tekst próbny."


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
def test_reads_every_usual_encoding(encoding: str) -> None:
    assert decode(GERMAN.encode(encoding)) == GERMAN


@pytest.mark.parametrize(("text", "encoding"), [(RUSSIAN, "cp1251"), (POLISH, "cp1250")])
def test_recognises_other_alphabets(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_believes_what_a_page_declares() -> None:
    page = '<meta charset="iso-8859-7"><p>Καλημέρα</p>'
    assert decode(page.encode("iso-8859-7"), declares=True) == page


def test_an_unknown_declaration_is_not_believed() -> None:
    page = '<meta charset="klingon"><p>é</p>'
    assert decode(page.encode("latin-1"), declares=True) == page


def test_line_ends_become_newlines_and_nul_a_space() -> None:
    assert decode(b"a\r\nb\rc\0d" + b"." * 100) == "a\nb\nc d" + "." * 100


@pytest.mark.parametrize("raw", [random.Random(1).randbytes(5000), bytes(range(32)) * 100])
def test_binary_data_is_no_text(raw: bytes) -> None:
    with pytest.raises(DocumentUnreadable):
        decode(raw)


def test_half_a_character_of_utf16_is_damage() -> None:
    with pytest.raises(DocumentUnreadable):
        decode("Köln".encode("utf-16")[:-1])
