"""`aes bench search`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.search.collection import SHIPPED, Labelled
from benchmarks.search.engines import engines
from benchmarks.search.figures import Filled, Findings, Ranked, Timed
from benchmarks.search.latency import measure
from benchmarks.search.quality import rank
from services.ingestion.adapters.embeddings.static import StaticEmbedder


@dataclass(frozen=True)
class Plan:
    """No ``sizes``: quality alone."""

    engines: Sequence[str] = ("pgvector",)
    collections: Sequence[Path] = (SHIPPED,)
    sizes: Sequence[int] = (1_000, 10_000, 100_000)
    searches: int = 100


async def run(plan: Plan, say: Callable[[str], None]) -> Findings:
    labelled = [Labelled.read(path) for path in plan.collections]
    embedder = StaticEmbedder()
    ranked: list[Ranked] = []
    filled: list[Filled] = []
    timed: list[Timed] = []
    async with engines(plan.engines) as opened:
        for engine in opened.values():
            for collection in labelled:
                say(f"{engine.name}: {collection.name}, {len(collection.queries)} queries")
                ranked += await rank(engine, embedder, collection)
            grown, times = await measure(engine, embedder, plan.sizes, plan.searches, say)
            filled += grown
            timed += times
    return Findings(ranked, filled, timed)
