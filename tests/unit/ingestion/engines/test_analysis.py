import threading
from collections import Counter
from hashlib import sha256

import pytest

from services.ingestion.adapters.engines.analysis import NUMBER_OF_TERMS, Analysis, number
from services.ingestion.domain.knowledge_bases import ANALYSIS


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("walking", "Walked"),
        ("CAFÉ", "cafe"),
        ("summit's", "summit"),
        ("summit\u2019s", "summits"),
        ("naïve", "naive"),
        ("état", "etat"),
        ("ﬁnance", "finance"),
        ("Fahr\u00adkarten", "Fahrkarten"),
        ("Fahr\u200bkarten", "Fahrkarten"),
        ("Fahr\u200ckarten", "Fahrkarten"),
        ("Fahr\u2060karten", "Fahrkarten"),
        ("Straße", "Strasse"),
        ("STRASSE", "straße"),
        ("København", "Kobenhavn"),
        ("Łodzi", "Lodzi"),
        ("Diyarbak\u0131r", "Diyarbakir"),
        ("Ærø", "Aero"),
        ("non\u2011stop", "non-stop"),
        ("ERR-4711", "err-4711"),
        ("ΟΔΟΣ", "οδος"),
    ],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    analysis = Analysis()
    assert analysis.terms(one) == analysis.terms(other) != []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ship", "shop"),
        ("1989", "1990"),
        ("c3po", "c4po"),
        ("run", "ruin"),
        ("किताब", "कबूतर"),
        ("12.5", "125"),
        ("क्या", "कया"),
    ],
)
def test_different_words_are_different_terms(one: str, other: str) -> None:
    assert Analysis().terms(one) != Analysis().terms(other)


def test_function_words_and_punctuation_are_left_out() -> None:
    assert Analysis().terms("The ship, and nothing but the ship - isn't it?") == ["ship", "noth", "ship"]


def test_identifiers_are_cut_at_their_joints() -> None:
    assert Analysis().terms("max_wal_size=2GB") == ["max", "wal", "size", "2gb", "2", "gb"]


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("ERR-4711", ["err", "4711", "err4711"]),
        ("ERR4711", ["err4711", "err", "4711"]),
        ("12.5kg", ["12", "5kg", "5", "kg", "12.5kg", "12.5"]),
        ("12.5 kg", ["12", "5", "12.5", "kg"]),
        ("2024-05-01", ["2024", "05", "01", "2024-05-01"]),
        ("state-of-the-art", ["state", "art"]),
        ("c3po", ["c3po"]),
        ("10am", ["10am", "10"]),
        ("The end.Next", ["end", "next"]),
    ],
)
def test_codes_and_amounts_count_whole_and_in_parts(word: str, terms: list[str]) -> None:
    assert Analysis().terms(word) == terms


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("서울", "서울에서 만나요"),
        ("कर", "कर्म और कर"),
        ("12.5 kg", "It weighs 12.5kg."),
        ("ERR 4711", "ERR-4711 was raised"),
        ("kafka", "kafka는 빠르다"),
    ],
)
def test_terms_of_a_query_are_among_those_of_a_text(query: str, text: str) -> None:
    analysis = Analysis()
    assert set(analysis.terms(query)) <= set(analysis.terms(text))


def test_words_of_indic_scripts_keep_their_vowel_signs() -> None:
    assert Analysis().terms("किताब कबूतर") == ["किताब", "कबूतर"]


def test_a_long_word_of_joints_is_no_code() -> None:
    assert Analysis().terms("-".join(["a1"] * 30)).count("a1") == 30


def test_languages_without_spaces_are_searched_by_pairs_of_characters() -> None:
    analysis = Analysis()
    assert set(analysis.terms("首都")) <= set(analysis.terms("東京は日本の首都です"))


def test_repetitions_count() -> None:
    assert Analysis().terms("tram tram trams") == ["tram"] * 3


def test_many_threads_may_ask_at_once() -> None:
    analysis, expected = Analysis(), Analysis()
    words = [f"walking{n} stations{n} relational{n}" for n in range(400)]
    wanted = [expected.terms(each) for each in words]
    found: list[list[list[str]]] = []
    threads = [
        threading.Thread(target=lambda: found.append([analysis.terms(each) for each in words])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4


@pytest.mark.parametrize(
    "text",
    [
        "The tram and the trams, a ship",
        "東京 tram 東京",
        "12.5kg of ERR-4711, twice: 12.5kg",
        "café, cafe: naïve",
        "the and of",
        "",
    ],
)
def test_counts_are_those_of_the_terms(text: str) -> None:
    analysis = Analysis()
    for _ in range(2):
        found = analysis.counts(text)
        expected = sorted(Counter(map(number, analysis.terms(text))).items())
        assert list(zip(found.numbers.tolist(), found.counts.tolist(), strict=True)) == expected
        assert found.length == len(analysis.terms(text))


def test_numbers_of_terms_never_change() -> None:
    # Indexes that are stored somewhere are full of them.
    assert (number("ship"), number("日本")) == (197_509_924, 350_711_756)
    assert all(0 <= number(f"term{n}") < NUMBER_OF_TERMS for n in range(1000))


def test_another_analysis_has_another_version() -> None:
    """Raise ``ANALYSIS`` whenever this fails: stored terms are those of the version before."""
    text = (
        "The café's trams, Straße 12.5kg ERR-4711 state-of-the-art København किताब 서울에서 東京は שָׁלוֹם مَرحبا "
        "Fahr\u00adkarten ไทย max_wal_size=2GB naïve c3po running"
    )
    found = sha256(" ".join(Analysis().terms(text)).encode()).hexdigest()[:16]
    assert (ANALYSIS, found) == (2, "23f5b8e6880849bf")
