"""Words by which a keyword search finds what it scores: never too many chunks, and those of the highest scores."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.adapters.engines.analysis import NUMBER_OF_TERMS
from services.ingestion.adapters.engines.bm25 import TermWeights, query_weights
from services.ingestion.adapters.engines.pgvector.selective_words import (
    LEAST_WEIGHTS,
    Frequencies,
    SelectiveWords,
    number_at,
    numbers_of,
    selective_words,
    strong_words,
    with_levels,
)

CHUNKS = 100_000.0


def chosen(
    frequencies: dict[int, float], *, unknown: tuple[int, ...] = (), chunks: float = CHUNKS
) -> SelectiveWords | None:
    counts = dict.fromkeys([*frequencies, *unknown], 1)
    seen = Frequencies(frequencies, chunks)
    return selective_words(query_weights(counts, frequencies, chunks), seen)


def test_rare_words_find_chunks_alone() -> None:
    found = chosen({1: 10, 2: 200, 3: 90_000})

    assert found == SelectiveWords([1, 2])


def test_an_unknown_word_costs_nothing() -> None:
    found = chosen({2: 200, 3: 300}, unknown=(1,))

    assert set(found.alone) == {1, 2, 3}


def test_frequent_words_have_to_be_together() -> None:
    found = chosen({1: 15_000, 2: 16_000, 3: 17_000, 4: 18_000})

    assert not found.alone
    assert found.together[0] == [1, 2]
    assert all(len(combination) == 2 for combination in found.together)


def test_a_rare_word_stays_alone_beside_frequent_ones() -> None:
    found = chosen({1: 500, 2: 12_000, 3: 13_000, 4: 17_000, 5: 18_000})

    assert found.alone == [1]
    assert [2, 3] in found.together


def test_of_more_frequent_words_more_are_needed() -> None:
    found = chosen({term: 30_000.0 + term for term in range(1, 7)})

    assert found.together == [[1, 2, 3, 4]]


def test_how_many_chunks_are_expected_is_known() -> None:
    rare, single, pair = chosen({1: 10, 2: 200, 3: 90_000}), chosen({1: 12_000}), chosen({1: 10_000, 2: 20_000})

    assert rare.expected == 210
    assert single.expected == 12_000
    assert round(pair.expected) == 2_000


def test_words_that_are_nearly_everywhere_find_nothing() -> None:
    assert chosen({1: 80_000, 2: 85_000, 3: 90_000}) is None


def test_a_small_index_is_compared_as_a_whole() -> None:
    assert chosen({1: 3_000, 2: 3_500}, chunks=8_000.0) is None
    assert chosen({1: 4_900}, chunks=8_000.0) is None


def test_nothing_is_told_by_words_without_weight() -> None:
    words = TermWeights(np.array([1], np.int32), np.array([0.0], np.float32))

    assert selective_words(words, Frequencies({1: CHUNKS}, CHUNKS)) is None


MOST = 2_500.0
# Of the chunks with a word, so many reach each level.
SHARES = (1.0, 0.3, 0.05, 0.01)


def counted_by_level(frequencies: dict[int, float]) -> dict[int, float]:
    return {
        number_at(term, level): share * frequency
        for term, frequency in frequencies.items()
        for level, share in enumerate(SHARES)
    }


def test_a_single_word_is_looked_for_where_it_is_repeated() -> None:
    together, expected = strong_words([(1, 0.5)], counted_by_level({1: 40_000}), CHUNKS, MOST)

    assert together == [[number_at(1, 2)]]
    assert expected == pytest.approx(2_000)


def test_the_best_level_is_taken_whole() -> None:
    together, expected = strong_words([(1, 0.5)], {number_at(1, level): 9_000.0 for level in range(4)}, CHUNKS, MOST)

    assert together == [[number_at(1, 3)]]
    assert expected == pytest.approx(9_000)


def test_no_chosen_chunk_scores_less_than_one_that_is_left_out() -> None:
    terms = [(1, 0.9), (2, 0.6), (3, 0.3)]
    together, expected = strong_words(terms, counted_by_level({1: 40_000, 2: 55_000, 3: 70_000}), CHUNKS, MOST)
    chosen, left = [], []
    for levels in product(range(-1, len(LEAST_WEIGHTS)), repeat=len(terms)):
        numbers = {number_at(term, n) for (term, _), level in zip(terms, levels, strict=True) for n in range(level + 1)}
        score = sum(w * LEAST_WEIGHTS[level] for (_, w), level in zip(terms, levels, strict=True) if level >= 0)
        (chosen if any(numbers.issuperset(each) for each in together) else left).append(score)

    assert MOST / 2 < expected <= MOST
    assert min(chosen) >= max(left)


def test_however_many_words_there_are_the_statement_stays_short() -> None:
    terms = [(term, 1.0 + term / 100) for term in range(1, 13)]
    together, expected = strong_words(terms, counted_by_level({term: 50_000.0 for term, _ in terms}), CHUNKS, MOST)

    assert 0 < len(together) <= 24
    assert all(len(each) <= 4 for each in together)
    assert 0 < expected <= MOST


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_words_that_are_nearly_everywhere_find_few_chunks(count: int) -> None:
    frequencies = {term: 80_000.0 + term for term in range(1, count + 1)}
    words = query_weights(dict.fromkeys(frequencies, 1), frequencies, CHUNKS)
    without = selective_words(words, Frequencies(frequencies, CHUNKS))
    found = selective_words(words, Frequencies(counted_by_level(frequencies), CHUNKS, have_levels=True))

    assert without is None or without.expected > MOST
    assert found.expected <= MOST


def test_a_word_that_is_strong_everywhere_is_compared() -> None:
    frequencies = {number_at(1, level): 99_000.0 for level in range(4)}
    words = query_weights({1: 1}, frequencies, CHUNKS)

    assert words.weights.dtype == np.float32
    assert selective_words(words, Frequencies(frequencies, CHUNKS, have_levels=True)) is None


def test_an_empty_index_has_no_chunks_to_choose() -> None:
    assert strong_words([(1, 0.5)], {}, 0.0, MOST) == ([], 0.0)
    words = query_weights({1: 1}, {1: 0.0}, 0.0)
    assert selective_words(words, Frequencies({1: 0.0}, 0.0, have_levels=True)) is None


SMALLEST, LARGEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max
terms = st.integers(0, NUMBER_OF_TERMS - 1)
levels = st.integers(0, len(LEAST_WEIGHTS) - 1)


def weights(given: dict[int, float]) -> TermWeights:
    return TermWeights(np.array(list(given), np.int32), np.array(list(given.values()), np.float32))


@given(terms, levels, terms, levels)
def test_no_two_terms_and_levels_share_a_number(one: int, level: int, other: int, other_level: int) -> None:
    assert (number_at(one, level) == number_at(other, other_level)) == ((one, level) == (other, other_level))
    assert SMALLEST <= number_at(one, level) <= LARGEST


def test_the_lowest_level_is_the_term_itself() -> None:
    assert numbers_of([7])[0] == 7


def test_a_chunk_has_each_level_that_a_term_reaches() -> None:
    once, twice, often = 1, 2, NUMBER_OF_TERMS - 1
    found = with_levels(weights({once: 1.0, twice: 1.4, often: 1.9})).tolist()

    assert sorted(found) == sorted([once, twice, number_at(twice, 1), *numbers_of([often])])


def test_an_empty_chunk_has_none() -> None:
    assert with_levels(weights({})).tolist() == []
