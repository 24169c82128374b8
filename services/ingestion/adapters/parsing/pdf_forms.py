"""Values that somebody filled into the form of a PDF document, which are no part of the text of its pages."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def form_values(path: Path) -> dict[int, list[str]]:
    """By page, with the description of the field where it has one. Nothing without a form."""
    import pypdfium2 as pdfium
    from pypdfium2 import raw

    try:
        with pdfium.PdfDocument(path) as document:
            if document.get_formtype() == raw.FORMTYPE_NONE:
                return {}
            document.init_forms()
            pages = ((number, document[number - 1]) for number in range(1, len(document) + 1))
            return {number: list(_values(document.formenv, page)) for number, page in pages}
    except pdfium.PdfiumError:
        # The text of the pages has been read: it does not depend on the form.
        return {}


def _values(form: Any, page: Any) -> Iterator[str]:
    from pypdfium2 import raw

    shown = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        try:
            if raw.FPDFAnnot_GetFormFieldType(form, annotation) in shown and (
                value := _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation).strip()
            ):
                described = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation).strip()
                yield f"{described}: {value}" if described else value
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _text(read: Callable[..., int], form: Any, annotation: Any) -> str:
    """The function of pdfium tells the size of its text first, and then writes it into a buffer."""
    from pypdfium2 import raw

    size = read(form, annotation, None, 0)
    buffer = ctypes.create_string_buffer(size)
    read(form, annotation, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")
