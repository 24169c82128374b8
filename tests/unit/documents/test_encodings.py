import random

import pytest

from libs.documents import DocumentUnreadable, decode

GERMAN = "Grüße aus Köln: die Straße kostet 5 £"
RUSSIAN = "Привет, как дела? Это обычный русский текст, по которому узнают кодировку."
POLISH = "Zażółć gęślą jaźń, to jest zwykły polski tekst próbny."


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
def test_reads_every_usual_encoding(encoding: str) -> None:
    assert decode(GERMAN.encode(encoding)) == GERMAN


@pytest.mark.parametrize(("text", "encoding"), [(RUSSIAN, "cp1251"), (POLISH, "cp1250")])
def test_recognises_other_alphabets(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_believes_what_a_page_declares() -> None:
    page = '<meta charset="iso-8859-7"><p>Καλημέρα</p>'
    assert decode(page.encode("iso-8859-7"), declares=True) == page


def test_an_unknown_declaration_is_not_believed() -> None:
    page = '<meta charset="klingon"><p>é</p>'
    assert decode(page.encode("latin-1"), declares=True) == page


def test_line_ends_become_newlines_and_nul_a_space() -> None:
    assert decode(b"a\r\nb\rc\0d" + b"." * 100) == "a\nb\nc d" + "." * 100


@pytest.mark.parametrize("raw", [random.Random(1).randbytes(5000), bytes(range(32)) * 100])
def test_binary_data_is_no_text(raw: bytes) -> None:
    with pytest.raises(DocumentUnreadable):
        decode(raw)


def test_half_a_character_of_utf16_is_damage() -> None:
    with pytest.raises(DocumentUnreadable):
        decode("Köln".encode("utf-16")[:-1])
