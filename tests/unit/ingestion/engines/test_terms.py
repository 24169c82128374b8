import threading
from collections import Counter

import pytest

from services.ingestion.adapters.engines.terms import NUMBER_OF_TERMS, Terms, number


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
    ],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    terms = Terms()
    assert terms.of(one) == terms.of(other) != []


@pytest.mark.parametrize(("one", "other"), [("ship", "shop"), ("1989", "1990"), ("c3po", "c4po"), ("run", "ruin")])
def test_different_words_are_different_terms(one: str, other: str) -> None:
    assert Terms().of(one) != Terms().of(other)


def test_function_words_and_punctuation_are_left_out() -> None:
    assert Terms().of("The ship, and nothing but the ship - isn't it?") == ["ship", "noth", "ship"]


def test_identifiers_are_cut_at_their_joints() -> None:
    assert Terms().of("max_wal_size=2GB") == ["max", "wal", "size", "2gb"]


def test_languages_without_spaces_are_searched_by_pairs_of_characters() -> None:
    terms = Terms()
    assert set(terms.of("首都")) <= set(terms.of("東京は日本の首都です"))


def test_repetitions_count() -> None:
    assert Terms().of("tram tram trams") == ["tram"] * 3


def test_many_threads_may_ask_at_once() -> None:
    terms, expected = Terms(), Terms()
    words = [f"walking{n} stations{n} relational{n}" for n in range(400)]
    wanted = [expected.of(each) for each in words]
    found: list[list[list[str]]] = []
    threads = [threading.Thread(target=lambda: found.append([terms.of(each) for each in words])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4


@pytest.mark.parametrize(
    "text", ["The tram and the trams, a ship", "東京 tram 東京", "café, cafe: naïve", "the and of", ""]
)
def test_counts_are_those_of_the_terms(text: str) -> None:
    terms = Terms()
    for _ in range(2):
        found = terms.counts(text)
        expected = sorted(Counter(map(number, terms.of(text))).items())
        assert list(zip(found.numbers.tolist(), found.counts.tolist(), strict=True)) == expected
        assert found.length == len(terms.of(text))


def test_numbers_of_terms_never_change() -> None:
    # Indexes that are stored somewhere are full of them.
    assert (number("ship"), number("日本")) == (197_509_924, 350_711_756)
    assert all(0 <= number(f"term{n}") < NUMBER_OF_TERMS for n in range(1000))
