"""Against values that trec_eval gives, and by hand."""

from math import log2
from pathlib import Path

import pytest

from benchmarks.search import SHIPPED, Labelled, ndcg, quality, recall, reciprocal_rank

GRADES = {"a": 3, "b": 1, "c": 2, "irrelevant": 0}
IDEAL = 3 + 2 / log2(3) + 1 / 2


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [
        (["a", "c", "b"], (1, 1, 1)),
        (["x", "b", "a"], ((1 / log2(3) + 3 / 2) / IDEAL, 2 / 3, 1 / 2)),
        ([f"x{n}" for n in range(10)] + ["a"], (0, 0, 1 / 11)),
    ],
    ids=["perfect", "places and grades count", "beyond the tenth place"],
)
def test_measures_of_a_ranking(ranking: list[str], expected: tuple[float, float, float]) -> None:
    found = ndcg(ranking, GRADES), recall(ranking, GRADES), reciprocal_rank(ranking, GRADES)
    assert found == pytest.approx(expected)


def test_a_query_without_an_answer_counts_as_nothing_found() -> None:
    found = quality({"q1": ["a"]}, {"q1": {"a": 1}, "q2": {"b": 1}, "unjudged": {"c": 0}})
    assert (found["ndcg"], found["queries"]) == (0.5, 2)


def test_the_shipped_collection_is_whole() -> None:
    labelled = Labelled.read(SHIPPED)
    assert len(labelled.queries) == 40
    assert all(document in labelled.documents for grades in labelled.judgements.values() for document in grades)


def test_judgements_of_trec_and_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("d1\tsome text\nd2\tmore\n")
    (tmp_path / "queries.tsv").write_text("1\twhat\n2\tunjudged\n")
    with pytest.raises(ValueError, match="no judgements"):
        Labelled.read(tmp_path)
    (tmp_path / "test.qrels").write_text("1 Q0 d2 1\n")
    labelled = Labelled.read(tmp_path)
    assert (labelled.documents, labelled.queries) == ({"d1": "some text", "d2": "more"}, {"1": "what"})
    assert labelled.judgements == {"1": {"d2": 1}}
