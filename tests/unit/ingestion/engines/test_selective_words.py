"""Words by which a keyword search finds what it scores: never too many chunks."""

import numpy as np

from services.ingestion.adapters.engines.bm25 import TermWeights, query_weights
from services.ingestion.adapters.engines.pgvector.selective_words import Frequencies, SelectiveWords, selective_words

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

    assert found is not None
    assert set(found.alone) == {1, 2, 3}


def test_frequent_words_have_to_be_together() -> None:
    found = chosen({1: 15_000, 2: 16_000, 3: 17_000, 4: 18_000})

    assert found is not None
    assert not found.alone
    assert found.together[0] == [1, 2]
    assert all(len(combination) == 2 for combination in found.together)


def test_a_rare_word_stays_alone_beside_frequent_ones() -> None:
    found = chosen({1: 500, 2: 12_000, 3: 13_000, 4: 17_000, 5: 18_000})

    assert found is not None
    assert found.alone == [1]
    assert [2, 3] in found.together


def test_of_more_frequent_words_more_are_needed() -> None:
    found = chosen({term: 30_000.0 + term for term in range(1, 7)})

    assert found is not None
    assert found.together == [[1, 2, 3, 4]]


def test_how_many_chunks_are_expected_is_known() -> None:
    rare, single, pair = chosen({1: 10, 2: 200, 3: 90_000}), chosen({1: 12_000}), chosen({1: 10_000, 2: 20_000})

    assert rare is not None
    assert rare.expected == 210
    assert single is not None
    assert single.expected == 12_000
    assert pair is not None
    assert round(pair.expected) == 2_000


def test_words_that_are_nearly_everywhere_find_nothing() -> None:
    assert chosen({1: 80_000, 2: 85_000, 3: 90_000}) is None


def test_a_small_index_is_compared_as_a_whole() -> None:
    assert chosen({1: 3_000, 2: 3_500}, chunks=8_000.0) is None
    assert chosen({1: 4_900}, chunks=8_000.0) is None


def test_nothing_is_told_by_words_without_weight() -> None:
    words = TermWeights(np.array([1], np.int32), np.array([0.0], np.float32))

    assert selective_words(words, Frequencies({1: CHUNKS}, CHUNKS)) is None
