"""Converts PDF, Word, HTML and image files to documents."""

import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path

from libs.confined import PartDone
from services.ingestion.adapters.parsing.data_images import emptied_addresses, without_data_images
from services.ingestion.adapters.parsing.pdf import page_texts
from services.ingestion.adapters.parsing.recognition import extracted, recognised_pages
from services.ingestion.domain.documents import ParsedDocument, Segment

_TITLE = re.compile(r"<title\b[^>]*>([^<]{1,500})</title", re.IGNORECASE)
_HEAD_ELEMENTS = re.compile(r"<title\b[^>]*>[^<]*</title\s*>|<meta\b[^>]*>", re.IGNORECASE)
# The converter drops the content of noscript elements, and adds the text "SVG Image" for each svg element.
_WRAPPERS = re.compile(r"</?(?:noscript|svg)\b[^>]*>", re.IGNORECASE)
_TITLE_SHOWN = 1000
_TABLE_ROW = re.compile(r"^\| .*$", re.MULTILINE)
_PADDING = re.compile(r"(?<=\S)  +(?=\S)|  +(?=\|)|(?<=---)-+")
_PAGE_BREAK = "\n\n"
# Each call reopens the document, and OCR takes seconds per page.
_PAGES_OF_A_PART = 8


def html(text: str) -> ParsedDocument:
    title = _TITLE.search(text)
    # The head's elements are removed, because the converter would add their content to the text.
    content = _WRAPPERS.sub("", _HEAD_ELEMENTS.sub("", emptied_addresses(text))).encode("utf-8", "replace")
    # The converter's clean-up would also remove forms and navigation.
    converted = extracted(content, "text/html", html_options={"preprocessing": {"enabled": False}})
    body = without_data_images(_clean(converted.content))
    name = " ".join(unescape(title.group(1)).split()) if title else ""
    if name and name not in body[:_TITLE_SHOWN]:
        body = f"{name}\n\n{body}"
    return ParsedDocument(body)


def cleaned(text: str) -> ParsedDocument:
    return ParsedDocument(_clean(text))


def pdf(path: Path, part_done: PartDone) -> ParsedDocument:
    """Converts a PDF. Scanned pages are read by OCR.

    If OCR is unavailable, the conversion fails only if every page is scanned.
    """
    texts = {number: _clean(text) for number, text in page_texts(path, part_done).items()}
    if blank := [number for number, text in texts.items() if not text]:
        needed = len(blank) == len(texts)
        for start in range(0, len(blank), _PAGES_OF_A_PART):
            part_done()
            recognised = recognised_pages(path, blank[start : start + _PAGES_OF_A_PART], needed=needed)
            texts |= {number: _clean(text).strip() for number, text in recognised.items()}
    return _pages(texts)


def _pages(texts: Mapping[int, str]) -> ParsedDocument:
    parts: list[str] = []
    segments: list[Segment] = []
    length = 0
    for number, text in sorted(texts.items()):
        if not text:
            continue
        parts.append(text)
        segments.append(Segment(length, length + len(text), number))
        length += len(text) + len(_PAGE_BREAK)
    return ParsedDocument(_PAGE_BREAK.join(parts), tuple(segments))


def _clean(text: str) -> str:
    """Replaces characters that can't be stored (NUL, unpaired surrogates), and removes the padding of table cells."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
    if "\n| " in text:
        text = _TABLE_ROW.sub(_unpadded, text)
    return text.encode("utf-8", "replace").decode()


def _unpadded(row: re.Match[str]) -> str:
    return _PADDING.sub(lambda gap: "" if gap.group().startswith("-") else " ", row.group())
