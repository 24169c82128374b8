"""Names and types of files, and origins of pages."""

import io
import zipfile

import pytest

from libs.contracts.errors import TooLarge, UnsupportedMediaType, ValidationFailed
from libs.contracts.file_names import distinct, safe_name
from libs.contracts.file_types import HEAD_BYTES, check_signature, type_of
from libs.contracts.origins import canonical_origin, is_origin
from tests.support import office_files


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.csv", "report.csv"),
        ("Grüße und 漢字.txt", "Grüße und 漢字.txt"),
        ("a/b\\c.txt", "c.txt"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("CON", "_CON"),
        ("nul.tar.txt", "_nul.tar.txt"),
        ("com1.pdf", "_com1.pdf"),
        ("console.pdf", "console.pdf"),
        ("a:b|c?.txt", "a_b_c_.txt"),
        ("x\u202etxt.exe.pdf", "xtxt.exe.pdf"),
        ("tab\there\x00.md", "tabhere.md"),
        ("name. . .", "name"),
        ("..hidden.txt", "hidden.txt"),
        ("e\u0301.txt", "é.txt"),
        ("half\ud800.txt", "half.txt"),
    ],
)
def test_what_is_kept_of_a_name(given: str, kept: str) -> None:
    assert safe_name(given) == kept


def test_a_long_name_keeps_its_extension_and_whole_characters() -> None:
    name = safe_name("ü" * 300 + ".xlsx")
    assert name == "ü" * 117 + ".xlsx"
    assert len(name.encode()) <= 240


@pytest.mark.parametrize("given", ["", "   ", "...", "/", "\u202e\u200b"])
def test_no_name_at_all(given: str) -> None:
    with pytest.raises(ValidationFailed):
        safe_name(given)


def test_equal_names_become_distinct_on_every_system() -> None:
    names = ["a.txt", "A.TXT", "a (2).txt", "a.txt", "b", "b"]
    assert list(distinct(names)) == ["a.txt", "A (2).TXT", "a (2) (2).txt", "a (3).txt", "b", "b (2)"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("program.c", ".c files aren't supported: 'program.c'. Supported extensions: .png, "),
        ("program", "The file has no extension: 'program'. Supported extensions: .png, "),
    ],
)
def test_an_unsupported_type_is_named(name: str, problem: str) -> None:
    with pytest.raises(UnsupportedMediaType) as refused:
        type_of(name)
    assert refused.value.message.startswith(problem)


@pytest.mark.parametrize(
    ("limit", "text"), [(52_428_800, "50 MiB"), (524_288, "512 KiB"), (1_000_000, "1000000 bytes")]
)
def test_a_limit_is_in_the_largest_exact_unit(limit: int, text: str) -> None:
    assert TooLarge.beyond(limit, "'a.txt'").message == f"'a.txt' is larger than {text}."


DOCX = office_files.docx(["a paragraph"])
XLSX = office_files.xlsx({"sheet": [["a", 1]]})


def archive(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for name in names:
            package.writestr(name, "content " * 20)
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", DOCX),
        ("a.xlsx", XLSX),
        # Which kind it is shows later than in the first bytes.
        ("a.docx", archive("[Content_Types].xml", "_rels/.rels")),
        ("a.docx", archive("word/document.xml", "word/embeddings/book.xlsx", "xl/workbook.xml")),
        # That they have a password is for their reader to tell.
        ("a.docx", office_files.protected()),
        ("a.xlsx", office_files.protected()),
    ],
)
def test_office_documents_by_their_own_name(name: str, content: bytes) -> None:
    check_signature(name, type_of(name), content[:HEAD_BYTES])


@pytest.mark.parametrize(
    ("name", "content", "looks"),
    [
        ("a.docx", XLSX, "an Excel workbook"),
        ("a.xlsx", DOCX, "a Word document"),
        ("a.docx", archive("[Content_Types].xml", "ppt/presentation.xml"), "a PowerPoint presentation"),
        ("a.docx", office_files.doc("Ferry"), "a legacy or password-protected Office document"),
        ("a.xlsx", office_files.xls([["ferry"]]), "a legacy or password-protected Office document"),
    ],
)
def test_office_documents_by_the_name_of_another_kind(name: str, content: bytes, looks: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=looks):
        check_signature(name, type_of(name), content[:HEAD_BYTES])


@pytest.mark.parametrize("head", [b"PK\x03\x04", b"PK\x03\x04" + b"\xff" * 40, b"PK\x05\x06" + bytes(18)])
def test_archives_that_are_cut_off_are_no_error(head: bytes) -> None:
    check_signature("a.docx", type_of("a.docx"), head)


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("https://example.com", "https://example.com"),
        ("HTTPS://Shop.Example.COM", "https://shop.example.com"),
        ("https://example.com:443", "https://example.com"),
        ("http://example.com:80", "http://example.com"),
        ("http://example.com:443", "http://example.com:443"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://localhost:65535", "http://localhost:65535"),
    ],
)
def test_equal_origins_are_equal_texts(given: str, canonical: str) -> None:
    assert is_origin(given)
    assert canonical_origin(given) == canonical


@pytest.mark.parametrize(
    "given",
    ["null", "*", "", "example.com", "https://example.com/", "https://*.example.com", "https://a.com https://b.com",
     "https://user@example.com", "file://x", "https://example.com\n", "https://exämple.com", "http://a:٣",
     "http://a:0", "http://a:080", "http://a:65536", "http://a:99999"],
)  # fmt: skip
def test_what_is_no_origin(given: str) -> None:
    assert not is_origin(given)
    with pytest.raises(ValueError, match="origin"):
        canonical_origin(given)
