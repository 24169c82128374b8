"""Both engines rank the benchmark's labelled collection well, by the benchmark's measures."""

from benchmarks.search import SHIPPED, Labelled, rank
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.domain.engines import Engine

# nDCG@10 of both engines, by exact comparison; a graph may miss a little.
RANKED = {"semantic": 0.799, "keyword": 0.768, "hybrid": 0.842}


async def test_each_way_ranks_as_well_as_measured_and_hybrid_best(engine: Engine) -> None:
    ranked = await rank(engine, StaticEmbedder(), Labelled.read(SHIPPED))

    ndcg = {mode: each["ndcg"] for mode, each in ranked.items()}
    assert {mode: ndcg[mode] > least - 0.002 for mode, least in RANKED.items()} == dict.fromkeys(RANKED, True), ndcg
    assert ndcg["hybrid"] > max(ndcg["semantic"], ndcg["keyword"])
