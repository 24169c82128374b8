"""Numbers by which chunks are found where a term weighs much."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.adapters.engines.analysis import NUMBER_OF_TERMS
from services.ingestion.adapters.engines.bm25 import TermWeights
from services.ingestion.adapters.engines.pgvector.selective_words import (
    LEAST_WEIGHTS,
    number_at,
    numbers_of,
    with_levels,
)

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
