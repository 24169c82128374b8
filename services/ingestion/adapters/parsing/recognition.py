"""Runs optical character recognition (OCR) with tesseract."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from libs.documents import DocumentEncrypted, DocumentUnreadable
from services.ingestion.domain.parsing import Unparsable

if TYPE_CHECKING:
    from kreuzberg import ExtractionResult, OcrConfig

_TESSERACT_DATA = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
_MISSING = (
    "The file only contains images of text. To read them, install tesseract on the machines that parse documents."
)


def recognised_image(path: Path, mime_type: str) -> str:
    """Returns the text in an image. Raises ``Unparsable``."""
    return _recognised(path, mime_type, _needed_tesseract()).content


def recognised_pages(path: Path, numbers: Sequence[int], *, needed: bool) -> Mapping[int, str]:
    """Returns the recognized text of PDF pages by page number.

    Without tesseract, returns {}, or raises ``Unparsable`` if ``needed`` is set.
    """
    from kreuzberg import PageConfig

    tesseract = _needed_tesseract() if needed else _tesseract()
    if tesseract is None:
        return {}
    # The marks around each page's text are unpredictable, so that a document can't forge them.
    mark = f"[{secrets.token_hex(8)} "
    pages = PageConfig(insert_page_markers=True, marker_format=f"\n\n{mark}{{page_num}}]\n\n")
    result = _recognised(path, "application/pdf", tesseract, pages=pages, force_ocr_pages=list(numbers))
    texts = re.split(rf"{re.escape(mark)}(\d+)\]", result.content)
    return {int(number): text for number, text in zip(texts[1::2], texts[2::2], strict=True) if int(number) in numbers}


def _recognised(path: Path, mime_type: str, ocr: OcrConfig, **options: Any) -> ExtractionResult:
    from kreuzberg import OCRError

    try:
        return extracted(path, mime_type, output="plain", ocr=ocr, disable_ocr=False, **options)
    except OCRError as error:
        reason = str(getattr(error, "message", "") or error).splitlines()[0]
        raise DocumentUnreadable(f"The image couldn't be read: {reason[:300]}") from None


def _needed_tesseract() -> OcrConfig:
    if (tesseract := _tesseract()) is None:
        raise Unparsable("ocr_missing", _MISSING, retryable=True)
    return tesseract


def _tesseract() -> OcrConfig | None:
    from kreuzberg import OcrConfig

    folders = [Path(folder) for folder in (os.environ.get("TESSDATA_PREFIX"), *_TESSERACT_DATA) if folder]
    for folder in folders:
        if languages := _languages(folder):
            os.environ["TESSDATA_PREFIX"] = str(folder)
            return OcrConfig(backend="tesseract", language="+".join(languages))
    return None


def _languages(folder: Path) -> list[str]:
    """Returns up to four installed languages, English first. Each additional language slows recognition down."""
    names = {file.stem for file in folder.glob("*.traineddata")} - {"osd", "equ"}
    return sorted(names, key=lambda name: (name != "eng", name))[:4]


def extracted(source: Path | bytes, mime_type: str, *, output: str = "markdown", **options: Any) -> ExtractionResult:
    """Converts a file with kreuzberg. Raises ``DocumentUnreadable``, or ``OCRError`` if OCR fails."""
    from kreuzberg import (
        ConcurrencyConfig,
        ExtractionConfig,
        KreuzbergError,
        OCRError,
        extract_bytes_sync,
        extract_file_sync,
    )

    config = ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        output_format=output,
        concurrency=ConcurrencyConfig(max_threads=1),
        **{"disable_ocr": True, **options},
    )
    try:
        if isinstance(source, bytes):
            return extract_bytes_sync(source, mime_type, config)
        return extract_file_sync(source, mime_type, config)
    except OCRError:
        raise
    except KreuzbergError as error:
        reason = str(getattr(error, "message", "") or error).splitlines()[0]
        if any(word in reason.lower() for word in ("password", "encrypt")):
            raise DocumentEncrypted from None
        message = f"The file is damaged or doesn't match its extension: {reason[:300]}"
        raise DocumentUnreadable(message) from None
