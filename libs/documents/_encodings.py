"""Detects the encoding of text files."""

import codecs
import re
from pathlib import Path

from libs.documents._errors import DocumentUnreadable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)")
_SAMPLE = 64 * 1024
_PIECE = 1024**2
_CONTROLS = bytes({*range(32)} - {9, 10, 12, 13, 27} | {127})
_ZEROS_OF_UTF16 = 0.3
_BINARY = 0.02


def decode(raw: bytes, *, declares: bool = False) -> str:
    """Decodes text and normalizes line endings to newlines. Raises DocumentUnreadable if the bytes aren't text.

    `declares` says whether the format allows a file to declare its encoding, as HTML does.
    """
    text = decoded(raw, declares=declares)
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")


def decoded(raw: bytes, *, declares: bool = False) -> str:
    """Decodes text like `decode`, but doesn't change the line endings."""
    found = encoding_of_sample(raw[:_SAMPLE])
    if found is not None:
        try:
            return raw.decode(found)
        except UnicodeDecodeError:
            raise DocumentUnreadable(f"The file starts as {found} text, but contains invalid bytes later on.") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode((_declared(raw) if declares else None) or _legacy(raw[:_SAMPLE]), "replace")


def encoding_of(path: Path) -> tuple[str, str]:
    """Returns the encoding of a text file and the error handler to decode it with.

    Raises DocumentUnreadable if the bytes aren't text.
    """
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
        if (found := encoding_of_sample(sample)) is not None:
            return found, "strict"
        decoder = codecs.getincrementaldecoder("utf-8")()
        piece = sample
        try:
            while piece:
                decoder.decode(piece)
                piece = file.read(_PIECE)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _legacy(sample), "replace"
    return "utf-8-sig", "strict"


def encoding_of_sample(sample: bytes) -> str | None:
    """Detects the encoding from a file's first bytes. Raises DocumentUnreadable for binary data.

    Returns None for UTF-8 without a byte order mark, and for legacy encodings.
    """
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if wide := _unmarked_utf16(sample):
        return wide
    if len(sample) - len(sample.translate(None, _CONTROLS)) > _BINARY * len(sample):
        raise DocumentUnreadable("The file has a text extension but contains binary data.")
    return None


def _declared(raw: bytes) -> str | None:
    found = _CHARSET.search(raw, 0, 2048)
    try:
        return codecs.lookup(found.group(1).decode("ascii")).name if found else None
    except LookupError:
        return None


def _unmarked_utf16(sample: bytes) -> str | None:
    pairs = len(sample) // 2
    if pairs < 2:
        return None
    low, high = sample[: pairs * 2 : 2].count(0), sample[1 : pairs * 2 : 2].count(0)
    if high > _ZEROS_OF_UTF16 * pairs and low == 0:
        return "utf-16-le"
    if low > _ZEROS_OF_UTF16 * pairs and high == 0:
        return "utf-16-be"
    return None


def _legacy(sample: bytes) -> str:
    """Guesses a legacy encoding. Assumes Western European unless another one is clearly more likely."""
    west = sample.decode("cp1252", "replace")
    foreign = [letter for letter in west if ord(letter) > 127]
    native = sum(letter.isascii() and letter.isalpha() for letter in west)
    has_signs_in_words = _SIGN_IN_WORD.search(west) is not None
    may_be_western = len(foreign) <= max(native, _FEW_LETTERS) and not has_signs_in_words
    if may_be_western and sum(letter in _WESTERN for letter in foreign) >= 0.9 * len(foreign):
        return "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_exclusion=_WESTERN_CODES if has_signs_in_words else None).best()
    return best.encoding if best else "cp1252"


_FEW_LETTERS = 4
# Encodings that decode Western European text to the same characters, or nearly the same.
_WESTERN_CODES = ["cp1252", "cp1254", "cp1258", "latin_1", "iso8859_9", "iso8859_15"]
# Western European characters at the positions of other encodings' letters.
_SIGN_IN_WORD = re.compile(r"[^\W\d_][³¹£¥¿¼¾][^\W\d_]")
# Characters of Western European prose. Text with other characters uses another encoding.
_WESTERN = frozenset(
    "äöüßÄÖÜéèêëàâáãåçñóòôõøíìîïúùûæœÉÈÊÀÁÂÃÅÇÑÓÒÔÕØÍÎÚÛÆŒ€£¥§©®°±²³µ·«»“”„—…•™ºª¿¡½¼¾\u2018\u2019\u201a\u2013\u00d7\xa0"
)
