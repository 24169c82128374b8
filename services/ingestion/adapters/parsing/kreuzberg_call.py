"""Calls kreuzberg with our options and translates its errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.ingestion.domain.parsing import Unparsable

if TYPE_CHECKING:
    from kreuzberg import ExtractionResult


def extracted(source: Path | bytes, mime_type: str, *, output: str = "markdown", **options: Any) -> ExtractionResult:
    """``options`` are further ones of kreuzberg's. Raises ``Unparsable``; what OCR raises passes through."""
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
        raise _unparsable(error) from None


def _unparsable(error: Exception) -> Unparsable:
    reason = str(getattr(error, "message", "") or error).splitlines()[0]
    if any(word in reason.lower() for word in ("password", "encrypt")):
        return Unparsable("encrypted", "The file is protected by a password.")
    return Unparsable("damaged", f"The file is damaged or not what its name says: {reason[:300]}")
