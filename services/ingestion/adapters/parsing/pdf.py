"""Extracts the text of PDF pages, including notes and form fields."""

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from libs.confined import PartDone
from libs.documents import DocumentEncrypted, DocumentUnreadable

# pdfium marks a hyphen at a line's end with these characters. They're removed, since searches look for whole words.
_HYPHEN: Final = re.compile("[\x02\ufffe][ \t]*\n?[ \t]*")
_ALEF_LAM: Final = re.compile("[\u0622\u0623\u0625\u0627\u0671]\u0644")
_PAGES_OF_A_PART: Final = 8


def page_texts(path: Path, part_done: PartDone) -> dict[int, str]:
    """Returns the pages' texts by page number. Raises ``DocumentUnreadable``."""
    import pypdfium2 as pdfium
    from pypdfium2 import raw

    try:
        with pdfium.PdfDocument(path) as document:
            form = _form(document)
            texts = {}
            for number in range(1, len(document) + 1):
                with closing(document[number - 1]) as page:
                    typed = _typed(form, page)
                    texts[number] = "\n".join(filter(None, [_text(page), *map(str.strip, typed)]))
                if number % _PAGES_OF_A_PART == 0:
                    part_done()
            return texts
    except pdfium.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise DocumentEncrypted from None
        raise DocumentUnreadable("The file is damaged, incomplete, or not a PDF document.") from None


def _text(page: Any) -> str:
    with closing(page.get_textpage()) as shown:
        text = _lam_before_alef(shown, shown.get_text_range())
    return _HYPHEN.sub("", text.replace("\r\n", "\n")).strip()


def _lam_before_alef(shown: Any, text: str) -> str:
    """Restores the order of the letters in Arabic ligatures.

    When pdfium reverses a word, it also reverses the letters of a ligature. These letters share one box, unlike the
    same letters in the article "al-". Offsets count UTF-16 units.
    """
    from pypdfium2 import raw

    if not _ALEF_LAM.search(text):
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    single = "".join(map(chr, memoryview(units).cast("H")))

    def turned(letters: re.Match[str]) -> str:
        indexes = (raw.FPDFText_GetCharIndexFromTextIndex(shown, letters.start() + each) for each in (0, 1))
        first, second = (shown.get_charbox(index) for index in indexes)
        return letters.group()[::-1] if first == second else letters.group()

    return _ALEF_LAM.sub(turned, single).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _form(document: Any) -> Any:
    """Returns the document's form, or None if there's none or pdfium rejects it."""
    import pypdfium2 as pdfium
    from pypdfium2 import raw

    try:
        if document.get_formtype() != raw.FORMTYPE_NONE:
            document.init_forms()
    except pdfium.PdfiumError:
        return None
    return document.formenv


def _typed(form: Any, page: Any) -> Iterator[str]:
    from pypdfium2 import raw

    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        try:
            if raw.FPDFAnnot_GetSubtype(annotation) in (raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT):
                yield _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
            elif form is not None:
                yield _field(form, annotation)
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _field(form: Any, annotation: Any) -> str:
    """Returns a form field's value with its description, or "" for an unchecked box."""
    from pypdfium2 import raw

    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    described = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation).strip()
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        if not raw.FPDFAnnot_IsChecked(form, annotation):
            return ""
        value = _string(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation).strip()
        described = described or _string(raw.FPDFAnnot_GetFormFieldName, form, annotation).strip()
    elif kind in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        value = _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation).strip()
    else:
        return ""
    return f"{described}: {value}" if described and value else value


def _string(read: Callable[..., int], *of: Any) -> str:
    """Returns a pdfium string. ``read`` is called twice: first for the string's size, then to fill a buffer."""
    from pypdfium2 import raw

    size = read(*of, None, 0)
    buffer = ctypes.create_string_buffer(size)
    read(*of, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")
