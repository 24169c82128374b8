"""Against values that trec_eval gives, and by hand."""

from math import log2
from pathlib import Path

import pytest

from benchmarks.search.collection import SHIPPED, Labelled, NotACollection
from benchmarks.search.measures import ndcg, quality, recall, reciprocal_rank

GRADES = {"a": 3, "b": 1, "c": 2, "irrelevant": 0}


def test_a_perfect_ranking_is_one() -> None:
    assert ndcg(["a", "c", "b"], GRADES) == pytest.approx(1)
    assert recall(["a", "c", "b"], GRADES) == 1
    assert reciprocal_rank(["a"], GRADES) == 1


def test_places_and_grades_count() -> None:
    ideal = 3 + 2 / log2(3) + 1 / 2
    assert ndcg(["x", "b", "a"], GRADES) == pytest.approx((1 / log2(3) + 3 / 2) / ideal)
    assert reciprocal_rank(["x", "irrelevant", "c"], GRADES) == pytest.approx(1 / 3)
    assert recall(["x", "a"], GRADES) == pytest.approx(1 / 3)


def test_what_is_beyond_the_tenth_place_does_not_count() -> None:
    ranking = [f"x{n}" for n in range(10)] + ["a"]
    assert (ndcg(ranking, GRADES), recall(ranking, GRADES)) == (0, 0)


def test_a_query_without_an_answer_counts_as_nothing_found() -> None:
    found = quality({"q1": ["a"]}, {"q1": {"a": 1}, "q2": {"b": 1}, "unjudged": {"c": 0}})
    assert (found.ndcg, found.queries) == (0.5, 2)


def test_the_shipped_collection_is_whole() -> None:
    labelled = Labelled.read(SHIPPED)
    assert len(labelled.queries) == 40
    assert all(document in labelled.documents for grades in labelled.judgements.values() for document in grades)


@pytest.mark.parametrize("form", ["beir", "trec"])
def test_both_forms_of_judgements_are_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": ""}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "what"}\n{"_id": "2", "text": "unjudged"}\n')
    if form == "beir":
        (tmp_path / "qrels").mkdir()
        (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t2\n")
    else:
        (tmp_path / "qrels.txt").write_text("1 0 d1 2\n")
    labelled = Labelled.read(tmp_path)
    assert labelled.documents == {"d1": "T\nx"}
    assert (labelled.queries, labelled.judgements) == ({"1": "what"}, {"1": {"d1": 2}})


def test_tables_are_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("d1\tsome text\nd2\tmore\n")
    (tmp_path / "queries.tsv").write_text("1\twhat\n")
    (tmp_path / "test.qrels").write_text("1 Q0 d2 1\n")
    assert Labelled.read(tmp_path).documents == {"d1": "some text", "d2": "more"}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotACollection, match=r"corpus\.jsonl"):
        Labelled.read(tmp_path)
