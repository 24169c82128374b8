"""Quality of a ranking against relevance judgements, as trec_eval computes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean

DEPTH = 10


@dataclass(frozen=True)
class Quality:
    """Means over the queries that have at least one relevant document."""

    ndcg: float
    recall: float
    reciprocal_rank: float
    queries: int


def quality(rankings: Mapping[str, Sequence[str]], judgements: Mapping[str, Mapping[str, int]]) -> Quality:
    """``rankings``: query → documents, best first. ``judgements``: query → document → grade, above 0 is relevant."""
    judged = {query: grades for query, grades in judgements.items() if any(grade > 0 for grade in grades.values())}
    if not judged:
        raise ValueError("no query has a relevant document")
    each = [(rankings.get(query, ()), grades) for query, grades in judged.items()]
    return Quality(
        ndcg=fmean(ndcg(ranking, grades) for ranking, grades in each),
        recall=fmean(recall(ranking, grades) for ranking, grades in each),
        reciprocal_rank=fmean(reciprocal_rank(ranking, grades) for ranking, grades in each),
        queries=len(each),
    )


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], depth: int = DEPTH) -> float:
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    return _gain([max(0, grades.get(each, 0)) for each in ranking[:depth]]) / _gain(best[:depth])


def recall(ranking: Sequence[str], grades: Mapping[str, int], depth: int = DEPTH) -> float:
    relevant = {each for each, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:depth])) / len(relevant)


def reciprocal_rank(ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    return next((1 / rank for rank, each in enumerate(ranking, 1) if grades.get(each, 0) > 0), 0.0)


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades, 1))
