"""One ranking of the candidates of every engine."""

import pytest

from services.ingestion.domain.engines import Candidate, Mode, Query
from services.ingestion.domain.ranking import ranked


def candidate(name: str, cosine: float | None, words: float | None, *, position: int = 0) -> Candidate:
    return Candidate((name, f"{name}-{position}"), position, cosine, words)


def order(mode: Mode, *found: Candidate) -> list[str]:
    return [file_id for file_id, _ in ranked(mode, found, 10)]


def test_what_both_find_beats_what_one_finds() -> None:
    both, close, worded = candidate("both", 0.8, 5.0), candidate("close", 0.9, 0.0), candidate("worded", 0.1, 6.0)

    assert order("hybrid", close, worded, both)[0] == "both"


def test_a_chunk_that_only_words_found_is_as_close_as_the_last_that_was_found_by_meaning() -> None:
    found = [candidate("near", 0.9, None), candidate("last", 0.4, None), candidate("words", None, 3.0)]

    scores = {file_id: score for (file_id, _), score in ranked("hybrid", found, 10).items()}

    assert scores["last"] == pytest.approx(0.55 * 0.4)
    assert scores["words"] == pytest.approx(0.55 * 0.4 + 0.45)


def test_a_missing_score_and_no_score_are_alike_by_words() -> None:
    """pgvector has both scores of each candidate, Weaviate those of the ways that found it."""
    complete = [candidate("a", 0.9, 0.0), candidate("b", 0.5, 2.0)]
    sparse = [candidate("a", 0.9, None), candidate("b", 0.5, 2.0)]

    assert ranked("hybrid", complete, 10) == ranked("hybrid", sparse, 10)


@pytest.mark.parametrize("words", [0.0, None])
def test_without_any_keyword_meaning_alone_ranks(words: float | None) -> None:
    assert order("hybrid", candidate("b", 0.7, words), candidate("a", 0.8, words)) == ["a", "b"]


def test_more_words_score_higher_and_never_one() -> None:
    scores = list(ranked("keyword", [candidate("a", None, 1.0), candidate("b", None, 1000.0)], 10).values())

    assert scores == pytest.approx([1000 / 1001, 0.5])


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
@pytest.mark.parametrize(("cosine", "words"), [(1.0, 9.0), (-1.0, 0.0), (1.0000001, 3.0), (-0.5, -1e-9), (None, None)])
def test_scores_stay_between_zero_and_one(mode: Mode, cosine: float | None, words: float | None) -> None:
    [score] = ranked(mode, [candidate("a", cosine, words)], 10).values()

    assert 0 <= score <= 1


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
def test_of_nothing_nothing_is_ranked(mode: Mode) -> None:
    assert ranked(mode, [], 10) == {}


def test_cosines_below_zero_keep_their_order() -> None:
    assert order("semantic", candidate("a", -0.4, None), candidate("b", -0.1, None)) == ["b", "a"]


def test_equal_scores_come_in_the_order_of_files_and_positions() -> None:
    found = [candidate("b", 0.5, None), candidate("a", 0.5, None, position=10), candidate("a", 0.5, None, position=9)]

    assert list(ranked("semantic", found, 2)) == [("a", "a-9"), ("a", "a-10")]


@pytest.mark.parametrize("top_k", [1, 10, 50, 100])
def test_a_hybrid_search_has_more_candidates_than_answers(top_k: int) -> None:
    assert Query("ferry", None, "hybrid", top_k).depth >= 2 * top_k
    assert Query("ferry", None, "keyword", top_k).depth == top_k
