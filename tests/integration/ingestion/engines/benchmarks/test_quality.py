"""Both engines rank the benchmark's labelled collection well, by the benchmark's measures."""

from benchmarks.search import SHIPPED, Labelled, rank
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.domain.engines import Engine


async def test_hybrid_ranks_better_than_either_way_alone(engine: Engine) -> None:
    found = {
        mode: each["ndcg"] for mode, each in (await rank(engine, StaticEmbedder(), Labelled.read(SHIPPED))).items()
    }

    assert found["hybrid"] > max(found["semantic"], found["keyword"])
