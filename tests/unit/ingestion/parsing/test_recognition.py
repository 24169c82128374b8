from collections.abc import Callable
from pathlib import Path

import pytest

from services.ingestion.adapters.parsing import recognition
from services.ingestion.adapters.parsing.reader import read_file
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.parsing import Unparsable
from tests.support import scans
from tests.support.office_files import pdf

Read = Callable[[str, bytes], ParsedDocument]
needs_tesseract = pytest.mark.skipif(recognition._tesseract() is None, reason="tesseract is not installed here")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def call(name: str, content: bytes) -> ParsedDocument:
        path = tmp_path / "stored"
        path.write_bytes(content)
        return read_file(path, name, "")

    return call


@pytest.fixture
def no_tesseract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "_TESSERACT_DATA", ())
    monkeypatch.delenv("TESSDATA_PREFIX", raising=False)


def pages(document: ParsedDocument) -> list[tuple[int | None, str]]:
    return [(s.page, document.text[s.text_start : s.text_end]) for s in document.segments]


@pytest.mark.usefixtures("no_tesseract")
@pytest.mark.parametrize(("name", "content"), [("a.png", scans.png()), ("scan.pdf", pdf([None, ""]))])
def test_pictures_of_text_need_tesseract(read: Read, name: str, content: bytes) -> None:
    with pytest.raises(Unparsable, match="tesseract") as caught:
        read(name, content)
    assert (caught.value.code, caught.value.retryable) == ("ocr_missing", True)


@pytest.mark.usefixtures("no_tesseract")
def test_without_tesseract_the_pages_with_text_are_read(read: Read) -> None:
    assert pages(read("a.pdf", pdf([None, "A typed page."]))) == [(2, "A typed page.")]


@needs_tesseract
def test_a_picture_is_recognised(read: Read) -> None:
    assert scans.WORDS in read("a.png", scans.png()).text


@needs_tesseract
def test_scanned_pages_are_recognised_and_keep_their_numbers(read: Read) -> None:
    first, second, fourth = pages(read("a.pdf", pdf([None, "A typed page.", "", None])))
    assert second == (2, "A typed page.")
    assert [number for number, text in (first, fourth) if scans.WORDS in text] == [1, 4]


@needs_tesseract
@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n" + bytes(50), scans.png()[:300]])
def test_a_damaged_picture_is_damaged(read: Read, content: bytes) -> None:
    with pytest.raises(Unparsable) as caught:
        read("a.png", content)
    assert caught.value.code == "damaged"


@needs_tesseract
def test_pages_without_anything_are_empty(read: Read) -> None:
    with pytest.raises(Unparsable) as caught:
        read("a.pdf", pdf(["", ""]))
    assert caught.value.code == "empty"
