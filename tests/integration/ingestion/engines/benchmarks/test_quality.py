"""Both engines rank the benchmark's labelled collection well, by the benchmark's measures."""

from benchmarks.search.collection import SHIPPED, Labelled
from benchmarks.search.quality import rank
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.domain.engines import Engine


async def test_hybrid_ranks_better_than_either_way_alone(engine: Engine) -> None:
    found = {each.mode: each.quality for each in await rank(engine, StaticEmbedder(), Labelled.read(SHIPPED))}

    assert found["hybrid"].ndcg > max(found["semantic"].ndcg, found["keyword"].ndcg)
