import pytest

from libs.contracts.errors import ValidationFailed
from libs.contracts.file_names import distinct, safe_name


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.csv", "report.csv"),
        ("Grüße und 漢字.txt", "Grüße und 漢字.txt"),
        ("a/b\\c.txt", "c.txt"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("CON", "_CON"),
        ("nul.tar.txt", "_nul.tar.txt"),
        ("com1.pdf", "_com1.pdf"),
        ("console.pdf", "console.pdf"),
        ("a:b|c?.txt", "a_b_c_.txt"),
        ("x\u202etxt.exe.pdf", "xtxt.exe.pdf"),
        ("tab\there\x00.md", "tabhere.md"),
        ("name. . .", "name"),
        ("..hidden.txt", "hidden.txt"),
        ("e\u0301.txt", "é.txt"),
        ("half\ud800.txt", "half.txt"),
    ],
)
def test_what_is_kept_of_a_name(given: str, kept: str) -> None:
    assert safe_name(given) == kept


def test_a_long_name_keeps_its_extension_and_whole_characters() -> None:
    name = safe_name("ü" * 300 + ".xlsx")
    assert name == "ü" * 117 + ".xlsx"
    assert len(name.encode()) <= 240


@pytest.mark.parametrize("given", ["", "   ", "...", "/", "\u202e\u200b"])
def test_no_name_at_all(given: str) -> None:
    with pytest.raises(ValidationFailed):
        safe_name(given)


def test_equal_names_become_distinct_on_every_system() -> None:
    names = ["a.txt", "A.TXT", "a (2).txt", "a.txt", "b", "b"]
    assert list(distinct(names)) == ["a.txt", "A (2).TXT", "a (2) (2).txt", "a (3).txt", "b", "b (2)"]
