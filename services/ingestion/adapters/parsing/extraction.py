"""Reads PDF, Office, HTML and image files through kreuzberg."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

from services.ingestion.adapters.parsing.limits import Limits
from services.ingestion.adapters.parsing.tables import TableText
from services.ingestion.adapters.parsing.word_entities import guard_entities, restore_entities
from services.ingestion.domain.documents import ParsedDocument, Segment
from services.ingestion.domain.parsing import Unparsable

if TYPE_CHECKING:
    from kreuzberg import ExtractionConfig, ExtractionResult, OcrConfig

_TITLE = re.compile(r"<title\b[^>]*>([^<]{1,500})</title", re.IGNORECASE)
_HEAD_ELEMENTS = re.compile(r"<title\b[^>]*>[^<]*</title\s*>|<meta\b[^>]*>", re.IGNORECASE)
_TITLE_SHOWN = 1000
_TABLE_ROW = re.compile(r"^\| .*$", re.MULTILINE)
_PADDING = re.compile(r"(?<=\S)  +(?=\S)|  +(?=\|)|(?<=---)-+")
_PAGE_BREAK = "\n\n"
_TESSERACT_DATA = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
_OCR_MISSING = (
    "The file holds pictures of text and no text. Reading those needs tesseract, which is not installed "
    "where documents are parsed."
)


def html(text: str) -> ParsedDocument:
    title = _TITLE.search(text)
    # The converter would put what the head says in front of the text, as if it were part of it.
    content = _HEAD_ELEMENTS.sub("", text).encode("utf-8", "replace")
    body = _clean(_extracted(lambda config: _bytes(content, "text/html", config)).content)
    name = " ".join(unescape(title.group(1)).split()) if title else ""
    if name and name not in body[:_TITLE_SHOWN]:
        body = f"{name}\n\n{body}"
    return ParsedDocument(body, metadata={"title": name} if name else {})


def word(path: Path, mime_type: str) -> ParsedDocument:
    """Word 2007 and later."""
    if (guarded := guard_entities(path)) is None:
        return office(path, mime_type)
    return ParsedDocument(
        restore_entities(_clean(_extracted(lambda config: _bytes(guarded, mime_type, config)).content))
    )


def office(path: Path, mime_type: str) -> ParsedDocument:
    return ParsedDocument(_clean(_extracted(lambda config: _file(path, mime_type, config)).content))


def workbook(path: Path, mime_type: str, limits: Limits) -> ParsedDocument:
    result = _extracted(lambda config: _file(path, mime_type, config))
    names = list((result.metadata or {}).get("sheet_names") or ())
    table = TableText(limits)
    for sheet in result.tables:
        if len(result.tables) > 1 and sheet.page_number <= len(names):
            table.title(str(names[sheet.page_number - 1]))
        table.sheet(sheet.cells, sheet.page_number if len(names) > 1 else None)
    return table.document()


def pdf(path: Path) -> ParsedDocument:
    document = _pages(_extracted(lambda config: _file(path, "application/pdf", config), output="plain", pages=True))
    if document.text.strip():
        return document
    return _pages(_recognised(path, "application/pdf"))


def image(path: Path, mime_type: str) -> ParsedDocument:
    return ParsedDocument(_clean(_recognised(path, mime_type).content))


def _pages(result: ExtractionResult) -> ParsedDocument:
    if not result.pages:
        return ParsedDocument(_clean(result.content))
    parts: list[str] = []
    segments: list[Segment] = []
    length = 0
    for page in result.pages:
        text = _clean(page["content"]).strip()
        if not text:
            continue
        parts.append(text)
        segments.append(Segment(length, length + len(text), page["page_number"]))
        length += len(text) + len(_PAGE_BREAK)
    return ParsedDocument(_PAGE_BREAK.join(parts), tuple(segments), {"pages": len(result.pages)})


def _recognised(path: Path, mime_type: str) -> ExtractionResult:
    folders = [Path(folder) for folder in (os.environ.get("TESSDATA_PREFIX"), *_TESSERACT_DATA) if folder]
    installed = next(((folder, languages) for folder in folders if (languages := _languages(folder))), None)
    if installed is None:
        raise Unparsable("ocr_missing", _OCR_MISSING, retryable=True)
    from kreuzberg import OcrConfig

    folder, languages = installed
    os.environ["TESSDATA_PREFIX"] = str(folder)
    ocr = OcrConfig(backend="tesseract", language="+".join(languages))
    return _extracted(lambda config: _file(path, mime_type, config), output="plain", pages=True, ocr=ocr)


def _languages(folder: Path) -> list[str]:
    """English first; each further language makes recognition slower, hence not more than four."""
    names = {file.stem for file in folder.glob("*.traineddata")} - {"osd", "equ"}
    return sorted(names, key=lambda name: (name != "eng", name))[:4]


def _extracted(
    read: Callable[[ExtractionConfig], ExtractionResult],
    *,
    output: str = "markdown",
    pages: bool = False,
    ocr: OcrConfig | None = None,
) -> ExtractionResult:
    from kreuzberg import ConcurrencyConfig, ExtractionConfig, KreuzbergError, OCRError, PageConfig

    config = ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        output_format=output,
        pages=PageConfig(extract_pages=True) if pages else None,
        ocr=ocr,
        concurrency=ConcurrencyConfig(max_threads=1),
    )
    try:
        return read(config)
    except OCRError:
        raise Unparsable("ocr_missing", _OCR_MISSING, retryable=True) from None
    except KreuzbergError as error:
        raise _unparsable(error) from None


def _unparsable(error: Exception) -> Unparsable:
    reason = str(getattr(error, "message", "") or error).splitlines()[0]
    if any(word in reason.lower() for word in ("password", "encrypt")):
        return Unparsable("encrypted", "The file is protected by a password.")
    if "pdfium" in reason.lower():
        return Unparsable("damaged", "The file is damaged, cut off, or no PDF document at all.")
    return Unparsable("damaged", f"The file is damaged or not what its name says: {reason[:300]}")


def _bytes(data: bytes, mime_type: str, config: ExtractionConfig) -> ExtractionResult:
    from kreuzberg import extract_bytes_sync

    return extract_bytes_sync(data, mime_type, config)


def _file(path: Path, mime_type: str, config: ExtractionConfig) -> ExtractionResult:
    from kreuzberg import extract_file_sync

    return extract_file_sync(path, mime_type, config)


def _clean(text: str) -> str:
    """PostgreSQL stores no NUL, UTF-8 no half of a surrogate pair; what pads the cells of tables says nothing."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
    if "\n| " in text:
        text = _TABLE_ROW.sub(_unpadded, text)
    return text.encode("utf-8", "replace").decode()


def _unpadded(row: re.Match[str]) -> str:
    return _PADDING.sub(lambda gap: "" if gap.group().startswith("-") else " ", row.group())
