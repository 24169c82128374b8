"""Decodes text files of any encoding."""

import codecs
import re

from charset_normalizer import from_bytes

from services.ingestion.domain.parsing import Unparsable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)")
_SAMPLE = 64 * 1024
_CONTROLS = bytes({*range(32)} - {9, 10, 12, 13, 27} | {127})
_ZEROS_OF_UTF16 = 0.3
_BINARY = 0.02


def decode(raw: bytes, *, declares: bool = False) -> str:
    """The text, with line ends as newlines. Raises Unparsable for bytes that are no text.

    `declares`: the file may name its encoding itself, as HTML does.
    """
    return (
        _decoded(raw, _declared(raw) if declares else None).replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
    )


def _decoded(raw: bytes, declared: str | None) -> str:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _strictly(raw, encoding)
    if wide := _unmarked_utf16(raw[:_SAMPLE]):
        return _strictly(raw, wide)
    sample = raw[:_SAMPLE]
    if len(sample) - len(sample.translate(None, _CONTROLS)) > _BINARY * len(sample):
        raise Unparsable("damaged", "The file is named as text but holds binary data.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode(declared or _legacy(raw), "replace")


def _declared(raw: bytes) -> str | None:
    found = _CHARSET.search(raw, 0, 2048)
    try:
        return codecs.lookup(found.group(1).decode("ascii")).name if found else None
    except LookupError:
        return None


def _strictly(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        raise Unparsable("damaged", f"The file begins as {encoding} text but is damaged further on.") from None


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


def _legacy(raw: bytes) -> str:
    """One of the encodings with one byte per character, or an Asian one. Western European unless clearly another."""
    west = raw[:_SAMPLE].decode("cp1252", "replace")
    foreign = [letter for letter in west if ord(letter) > 127]
    if sum(letter in _WESTERN for letter in foreign) >= 0.9 * len(foreign):
        return "cp1252"
    best = from_bytes(raw[:_SAMPLE]).best()
    return best.encoding if best else "cp1252"


# Letters and signs that Western European prose really uses; a text of other ones was written in another encoding.
_WESTERN = frozenset(
    "äöüßÄÖÜéèêëàâáãåçñóòôõøíìîïúùûæœÉÈÊÀÁÂÃÅÇÑÓÒÔÕØÍÎÚÛÆŒ€£¥§©®°±²³µ·«»“”„—…•™ºª¿¡½¼¾\u2018\u2019\u201a\u2013\u00d7\xa0"
)
