"""Parses a file according to its format. Rejects files without text or with too much text."""

import zipfile
from pathlib import Path
from typing import Final

from libs.confined import PartDone, no_parts
from libs.contracts.file_types import TYPES
from libs.documents import DocumentEncrypted, DocumentUnreadable, check_encrypted, decode
from services.ingestion.adapters.parsing import extraction
from services.ingestion.adapters.parsing.data_images import without_data_images
from services.ingestion.adapters.parsing.recognition import extracted, recognised_image
from services.ingestion.adapters.parsing.tables import check_length, from_csv, from_json, from_workbook
from services.ingestion.adapters.parsing.word import word_text
from services.ingestion.domain.documents import ParsedDocument, Segment
from services.ingestion.domain.parsing import Unparsable

_MIME_TYPES: Final = {f".{extension}": kind.content_type for extension, kind in TYPES.items()}
_MOST_UNPACKED_BYTES: Final = 512 * 1024**2
_BOMB_RATIO: Final = 200
_BOMB_SIZE: Final = 32 * 1024**2
_ALIASES: Final = {".htm": ".html", ".markdown": ".md", ".text": ".txt"}
_EXTENSIONS: Final = {mime_type: extension for extension, mime_type in _MIME_TYPES.items()}


def read_file(path: Path, name: str, content_type: str, part_done: PartDone = no_parts) -> ParsedDocument:
    """Parses a file. Raises Unparsable."""
    if path.stat().st_size == 0:
        raise Unparsable("empty", "The file is empty.")
    try:
        document = _read(path, _extension(name, content_type), part_done)
    except DocumentEncrypted as problem:
        raise Unparsable("encrypted", str(problem)) from None
    except DocumentUnreadable as problem:
        raise Unparsable("damaged", str(problem)) from None
    check_length(len(document.text))
    if not document.text.strip():
        raise Unparsable("empty", "The file contains no text.")
    return document


def _extension(name: str, content_type: str) -> str:
    extension = Path(name).suffix.lower()
    extension = _ALIASES.get(extension, extension)
    if extension in _MIME_TYPES:
        return extension
    by_type = _EXTENSIONS.get(content_type.partition(";")[0].strip().lower())
    if by_type is None:
        raise Unparsable("unsupported", f"Unsupported file type {extension or content_type!r}.")
    return by_type


def _read(path: Path, extension: str, part_done: PartDone) -> ParsedDocument:
    mime_type = _MIME_TYPES[extension]
    match extension:
        case ".pdf":
            return extraction.pdf(path, part_done)
        case ".docx":
            check_encrypted(path)
            _check_package(path)
            return extraction.cleaned(word_text(path))
        case ".doc":
            check_encrypted(path)
            return extraction.cleaned(extracted(path, mime_type).content)
        case ".xlsx" | ".xls":
            if zipfile.is_zipfile(path):
                _check_package(path)
            return from_workbook(path, part_done)
        case ".txt" | ".md" | ".html" | ".csv" | ".json":
            return _text(decode(path.read_bytes(), declares=extension == ".html"), extension, part_done)
        case _:
            return extraction.cleaned(recognised_image(path, mime_type))


def _text(text: str, extension: str, part_done: PartDone) -> ParsedDocument:
    check_length(len(text))
    if not text.strip():
        raise Unparsable("empty", "The file contains no text.")
    match extension:
        case ".html":
            return extraction.html(text)
        case ".csv":
            return from_csv(text, part_done)
        case ".json":
            return from_json(text)
        case ".md":
            return _plain(without_data_images(text))
        case _:
            return _plain(text)


def _plain(text: str) -> ParsedDocument:
    """Parses plain text. Form feeds separate pages."""
    if "\f" not in text:
        return ParsedDocument(text)
    segments, start = [], 0
    for page, content in enumerate(text.split("\f"), 1):
        segments.append(Segment(start, start + len(content), page))
        start += len(content) + 1
    return ParsedDocument(text, tuple(segments))


def _check_package(path: Path) -> None:
    """Checks a .docx or .xlsx file. Raises an error if the file isn't safe to unpack."""
    try:
        with zipfile.ZipFile(path) as package:
            members = package.infolist()
            if any(member.flag_bits & 1 for member in members):
                raise DocumentEncrypted
            _check_size(members)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, ValueError, OSError) as error:
        raise DocumentUnreadable(f"The file is damaged or incomplete: {error}.") from None


def _check_size(members: list[zipfile.ZipInfo]) -> None:
    unpacked = sum(member.file_size for member in members)
    bomb = any(
        member.file_size > _BOMB_SIZE and member.file_size > _BOMB_RATIO * max(member.compress_size, 1)
        for member in members
    )
    if bomb or unpacked > _MOST_UNPACKED_BYTES:
        raise Unparsable("too_large", f"The file would unpack to {unpacked // 1024**2:,} MB. Upload a smaller file.")
