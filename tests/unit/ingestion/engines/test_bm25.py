from math import log

import numpy as np
import pytest

from services.ingestion.adapters.engines.analysis import number
from services.ingestion.adapters.engines.bm25 import (
    K1,
    B,
    TermWeights,
    chunk_weights,
    counted,
    query_weights,
    recomputed_weights,
    relative,
)
from services.ingestion.domain.documents import TermCounts

PASSAGES = (
    ["ship", "harbour", "ship"],
    ["harbour", "crane"],
    ["tram", "city", "tram", "tram", "ticket"],
    ["ship"],
)
AVERAGE = sum(map(len, PASSAGES)) / len(PASSAGES)


def of(words: list[str]) -> TermCounts:
    counts = sorted(counted(words).items())
    numbers, frequencies = zip(*counts, strict=True)
    return TermCounts(np.array(numbers, np.int32), np.array(frequencies, np.int32), len(words))


def score(chunk: TermWeights, query: TermWeights) -> float:
    weights = dict(zip(chunk.terms.tolist(), chunk.weights.tolist(), strict=True))
    return sum(
        weight * weights.get(term, 0.0)
        for term, weight in zip(query.terms.tolist(), query.weights.tolist(), strict=True)
    )


def by_the_book(chunk: list[str], query: list[str]) -> float:
    total = 0.0
    for word in query:
        having = sum(word in each for each in PASSAGES)
        idf = log(1 + (len(PASSAGES) - having + 0.5) / (having + 0.5))
        frequency = chunk.count(word)
        total += idf * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * len(chunk) / AVERAGE))
    return total


@pytest.mark.parametrize(
    "query", [["ship"], ["ship", "harbour"], ["tram", "tram", "city"], ["crane", "ticket", "ship"]]
)
def test_the_inner_product_of_both_halves_is_bm25(query: list[str]) -> None:
    frequencies = {number(w): float(sum(w in p for p in PASSAGES)) for p in PASSAGES for w in p}
    weights = query_weights(counted(query), frequencies, len(PASSAGES))
    for chunk in PASSAGES:
        found = score(chunk_weights(of(chunk), AVERAGE), weights)
        assert found == pytest.approx(by_the_book(chunk, query), rel=1e-5)


def test_weights_are_sorted_by_term() -> None:
    weights = chunk_weights(of([f"word{n}" for n in range(500)]), 100)
    assert np.all(np.diff(weights.terms) > 0)


def test_a_passage_of_endless_different_words_keeps_the_most_frequent() -> None:
    words = [f"word{n}" for n in range(30_000)] + ["anchor"] * 5
    weights = chunk_weights(of(words), 100)
    assert len(weights.terms) == 16_000
    assert number("anchor") in weights.terms


def test_a_word_that_no_passage_has_is_as_rare_as_can_be() -> None:
    weights = query_weights({1: 1, 2: 1}, {1: 50.0}, 100)
    assert weights.weights[1] > weights.weights[0] > 0


def test_weights_for_another_average_length_are_as_if_written_with_it() -> None:
    words = ["ship", "ship", "ship", "harbour", "crane"] + ["tram"] * 12
    early = chunk_weights(of(words), 200.0)
    late = recomputed_weights(early, len(words), 200.0, 35.0)
    expected = chunk_weights(of(words), 35.0)
    assert late.terms.tolist() == expected.terms.tolist()
    assert late.weights.tolist() == pytest.approx(expected.weights.tolist(), rel=1e-5)


def test_a_score_is_relative_to_common_words_at_their_best() -> None:
    assert relative(4.4, 2) == pytest.approx(1)
    assert relative(0.0, 0) == 0
