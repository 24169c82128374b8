"""Chunks in which frequent words weigh most: few enough, and those of the highest scores."""

from itertools import product

import numpy as np
import pytest

from services.ingestion.adapters.engines.bm25 import query_weights
from services.ingestion.adapters.engines.pgvector.selective_words import (
    LEAST_WEIGHTS,
    Frequencies,
    number_at,
    selective_words,
    strong_words,
)

CHUNKS = 100_000.0
MOST = 2_500.0
# Of the chunks with a word, so many reach each level.
SHARES = (1.0, 0.3, 0.05, 0.01)


def counted(frequencies: dict[int, float]) -> dict[int, float]:
    return {
        number_at(term, level): share * frequency
        for term, frequency in frequencies.items()
        for level, share in enumerate(SHARES)
    }


def test_a_single_word_is_looked_for_where_it_is_repeated() -> None:
    together, expected = strong_words([(1, 0.5)], counted({1: 40_000}), CHUNKS, MOST)

    assert together == [[number_at(1, 2)]]
    assert expected == pytest.approx(2_000)


def test_the_best_level_is_taken_whole() -> None:
    together, expected = strong_words([(1, 0.5)], {number_at(1, level): 9_000.0 for level in range(4)}, CHUNKS, MOST)

    assert together == [[number_at(1, 3)]]
    assert expected == pytest.approx(9_000)


def test_no_chosen_chunk_scores_less_than_one_that_is_left_out() -> None:
    terms = [(1, 0.9), (2, 0.6), (3, 0.3)]
    together, expected = strong_words(terms, counted({1: 40_000, 2: 55_000, 3: 70_000}), CHUNKS, MOST)
    chosen, left = [], []
    for levels in product(range(-1, len(LEAST_WEIGHTS)), repeat=len(terms)):
        numbers = {number_at(term, n) for (term, _), level in zip(terms, levels, strict=True) for n in range(level + 1)}
        score = sum(w * LEAST_WEIGHTS[level] for (_, w), level in zip(terms, levels, strict=True) if level >= 0)
        (chosen if any(numbers.issuperset(each) for each in together) else left).append(score)

    assert MOST / 2 < expected <= MOST
    assert min(chosen) >= max(left)


def test_however_many_words_there_are_the_statement_stays_short() -> None:
    terms = [(term, 1.0 + term / 100) for term in range(1, 13)]
    together, expected = strong_words(terms, counted({term: 50_000.0 for term, _ in terms}), CHUNKS, MOST)

    assert 0 < len(together) <= 24
    assert all(len(each) <= 4 for each in together)
    assert 0 < expected <= MOST


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_words_that_are_nearly_everywhere_find_few_chunks(count: int) -> None:
    frequencies = {term: 80_000.0 + term for term in range(1, count + 1)}
    words = query_weights(dict.fromkeys(frequencies, 1), frequencies, CHUNKS)
    without = selective_words(words, Frequencies(frequencies, CHUNKS))
    found = selective_words(words, Frequencies(counted(frequencies), CHUNKS, have_levels=True))

    assert without is None or without.expected > MOST
    assert found is not None
    assert found.expected <= MOST


def test_a_rare_word_still_finds_chunks_alone() -> None:
    frequencies = {1: 200.0, 2: 90_000.0}
    words = query_weights(dict.fromkeys(frequencies, 1), frequencies, CHUNKS)
    found = selective_words(words, Frequencies(counted(frequencies), CHUNKS, have_levels=True))

    assert found is not None
    assert found.alone == [1]


def test_a_word_that_is_strong_everywhere_is_compared() -> None:
    frequencies = {number_at(1, level): 99_000.0 for level in range(4)}
    words = query_weights({1: 1}, frequencies, CHUNKS)

    assert words.weights.dtype == np.float32
    assert selective_words(words, Frequencies(frequencies, CHUNKS, have_levels=True)) is None


def test_an_empty_index_has_no_chunks_to_choose() -> None:
    assert strong_words([(1, 0.5)], {}, 0.0, MOST) == ([], 0.0)
    words = query_weights({1: 1}, {1: 0.0}, 0.0)
    assert selective_words(words, Frequencies({1: 0.0}, 0.0, have_levels=True)) is None
