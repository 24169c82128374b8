"""Search over the internal API, with a real index and the rows that ingestion leaves."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.resources.knowledge_bases import CreateKnowledgeBase
from libs.persistence import Database
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.domain.documents import Chunk
from services.ingestion.domain.engines import IndexedChunk
from tests.integration.ingestion.conftest import Ingestion

TEXTS = {
    "ferry.txt": "The ferry to the island leaves the harbour at seven in the morning.",
    "hut.txt": "The mountain hut is open from June to September.",
}


@pytest.fixture
async def knowledge_base(ingestion: Ingestion) -> AsyncIterator[dict[str, Any]]:
    """An ingested one of two files, without the pipeline having run."""
    files = [await ingestion.file(name, text.encode()) for name, text in TEXTS.items()]
    knowledge_base_id, index_id = new_id(), new_id()
    settings = {"name": "Handbook", "file_ids": [each["id"] for each in files], "ingest": False}
    await ingestion.run_command(CreateKnowledgeBase(knowledge_base_id=knowledge_base_id, settings=settings))
    await ingestion.rows(
        """
        INSERT INTO knowledge_base_indexes (id, knowledge_base_id, engine, settings, settings_hash, state)
        SELECT %s, id, 'pgvector', settings, '', 'live' FROM knowledge_bases WHERE id = %s
        """,
        index_id,
        knowledge_base_id,
    )
    await ingestion.rows("UPDATE knowledge_bases SET index_id = %s WHERE id = %s", index_id, knowledge_base_id)
    for each in files:
        await ingestion.rows(
            "INSERT INTO ingestion_items (index_id, file_id, run_id, state) VALUES (%s, %s, 'run', 'ingested')",
            index_id,
            each["id"],
        )
    database = Database(ingestion.database_url, name="engine", timeout=30.0)
    await database.open()
    engine, vectors = PgvectorEngine(database), await StaticEmbedder().embed(list(TEXTS.values()))
    await engine.create_index(index_id, 256)
    passages = [
        IndexedChunk(each["id"], Chunk(new_id(), 0, text, 0, len(text)), vector)
        for each, text, vector in zip(files, TEXTS.values(), vectors, strict=True)
    ]
    await engine.write(index_id, passages)
    await engine.finish(index_id)
    yield {"id": knowledge_base_id, "files": {each["name"]: each["id"] for each in files}}
    await database.close()


async def search(ingestion: Ingestion, knowledge_base: dict[str, Any], **body: Any) -> list[str]:
    response = await ingestion.post(f"/internal/knowledge-bases/{knowledge_base['id']}/search", body)
    assert response.status_code == 200, response.text
    return [each["file_name"] for each in response.json()["results"]]


async def test_every_mode_finds_and_cites(ingestion: Ingestion, knowledge_base: dict[str, Any]) -> None:
    for mode in ("hybrid", "semantic", "keyword"):
        found = await search(ingestion, knowledge_base, query="When does the ferry leave?", mode=mode, top_k=1)
        assert found == ["ferry.txt"]


async def test_the_reply_is_that_of_the_public_api(ingestion: Ingestion, knowledge_base: dict[str, Any]) -> None:
    path = f"/internal/knowledge-bases/{knowledge_base['id']}/search"
    reply = (await ingestion.post(path, {"query": "mountain hut", "top_k": 1})).json()
    [result] = reply["results"]
    assert (reply["success"], reply["query"], reply["mode"]) == (True, "mountain hut", "hybrid")
    assert (result["knowledge_base_id"], result["knowledge_base_name"]) == (knowledge_base["id"], "Handbook")
    assert result["file_id"] == knowledge_base["files"]["hut.txt"]
    assert result["passage"] == TEXTS["hut.txt"]
    assert 0 < result["score"] <= 1


async def test_filters_and_statuses_take_effect_at_once(ingestion: Ingestion, knowledge_base: dict[str, Any]) -> None:
    hut = knowledge_base["files"]["hut.txt"]
    assert await search(ingestion, knowledge_base, query="ferry", filters={"file_ids": [hut]}) == ["hut.txt"]
    await ingestion.rows("UPDATE files SET status = 'inactive' WHERE id = %s", hut)
    assert await search(ingestion, knowledge_base, query="mountain hut") == ["ferry.txt"]
