import pytest

from services.ingestion.domain.search import candidates, combined


def test_what_both_find_beats_what_one_finds() -> None:
    both = combined(0.8, 5.0, best_keyword=6.0)
    assert both > combined(0.9, 0.0, best_keyword=6.0)
    assert both > combined(0.1, 6.0, best_keyword=6.0)


def test_without_any_keyword_meaning_alone_ranks() -> None:
    assert combined(0.8, 0.0, best_keyword=0.0) > combined(0.7, 0.0, best_keyword=0.0) > 0


@pytest.mark.parametrize(("cosine", "keyword", "best"), [(1.0, 9.0, 9.0), (-1.0, 0.0, 0.0), (1.0000001, 3.0, 3.0)])
def test_scores_stay_between_zero_and_one(cosine: float, keyword: float, best: float) -> None:
    assert 0 <= combined(cosine, keyword, best) <= 1


def test_there_are_always_more_candidates_than_answers() -> None:
    assert all(candidates(top_k) >= 2 * top_k for top_k in (1, 10, 50, 100))
