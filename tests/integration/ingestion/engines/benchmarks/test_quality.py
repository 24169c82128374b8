"""Both engines rank the benchmark's labelled collection well, by the benchmark's measures."""

from benchmarks.search.collection import SHIPPED, Labelled
from benchmarks.search.quality import rank
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.domain.engines import Engine

# nDCG@10 of both engines, by exact comparison; a graph may miss a little.
RANKED = {"semantic": 0.799, "keyword": 0.768, "hybrid": 0.842}


async def test_each_way_ranks_as_well_as_measured_and_hybrid_best(engine: Engine) -> None:
    found = {each.mode: each.quality for each in await rank(engine, StaticEmbedder(), Labelled.read(SHIPPED))}

    ndcg = {mode: quality.ndcg for mode, quality in found.items()}
    assert {mode: ndcg[mode] > least - 0.002 for mode, least in RANKED.items()} == dict.fromkeys(RANKED, True), ndcg
    assert ndcg["hybrid"] > max(ndcg["semantic"], ndcg["keyword"])
