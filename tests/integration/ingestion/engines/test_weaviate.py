"""Behaviour that only the Weaviate engine has."""

import pytest

from libs.contracts.identifiers import new_id
from services.ingestion.adapters.engines.weaviate.connection import Address
from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine
from services.ingestion.domain.engines import EngineUnavailable
from services.ingestion.domain.ranking import search
from tests.integration.ingestion.chunks import DIMENSIONS, SEA, chunk, query


@pytest.mark.crash("Weaviate")
@pytest.mark.outage("the search engine")
async def test_a_server_that_was_never_there_is_an_outage() -> None:
    engine = WeaviateEngine(Address("http://127.0.0.1:9", 10))
    passages = [chunk("p1", "ferry", SEA)]
    for call in (
        engine.write("index", passages),
        search(engine, "index", query("ferry", SEA)),
        engine.count("index"),
        engine.existing(["index"]),
    ):
        with pytest.raises(EngineUnavailable):
            await call
    await engine.close()


async def test_keyword_scores_are_right_once_finished(weaviate: WeaviateEngine) -> None:
    index_id = new_id()
    await weaviate.create_index(index_id, DIMENSIONS)
    long = " ".join(f"filler{n}" for n in range(200))
    chunks = [chunk(f"long{n}", f"harbour {long}", SEA, file_id=f"l{n}") for n in range(20)]
    await weaviate.write(index_id, [*chunks, chunk("short", "harbour crane", SEA, file_id="s")])
    await weaviate.finish(index_id)
    hits = await search(weaviate, index_id, query("harbour", mode="keyword", top_k=3))
    assert hits[0].chunk_id == "short"
    assert hits[0].score > 1.5 * hits[1].score
    await weaviate.drop_index(index_id)
