"""A company sees its own knowledge bases and none of other companies."""

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
)
from tests.integration.ingestion.conftest import Ingestion
from tests.support.command_records import unchecked
from tests.support.ingestion_workers import KnowledgeBases, documents
from tests.support.registry import identity

STRANGER = identity("user-2", "company-2")


async def test_a_name_is_enough(bases: KnowledgeBases) -> None:
    made = await bases.get(await bases.create(name="Harbour"))

    assert (made["status"], made["progress"], made["success_rate"], made["datasources"]) == ("pending", 0, 0.0, [])
    assert (made["dataset_name"], made["normalized_dataset_name"]) == ("Harbour", "harbour")
    assert made["processing_engine"] == "pgvector"
    assert made["embedding_config"] == {"provider": "wordllama", "model": "l2_supercat", "dimensions": 256}
    assert made["chunking_strategy"] == {
        "strategy": "recursive", "chunk_size": 512, "chunk_overlap": 64, "split_by": "token",
        "recursive_separators": ["\n\n", "\n", ". ", " "],
    }  # fmt: skip
    assert (made["created_by_name"], made["company_name"]) == (identity().user_name, identity().company_name)


@pytest.mark.parametrize("whose", ["nobody's", "another company's"])
async def test_files_and_collections_must_be_the_companys(
    ingestion: Ingestion, bases: KnowledgeBases, whose: str
) -> None:
    [own] = await bases.upload(documents(1))
    foreign = new_id() if whose == "nobody's" else (await ingestion.file("a.txt", caller=STRANGER))["id"]
    settings = {"name": "Harbour", "file_ids": [own, foreign], "collection_ids": [foreign]}

    made = await ingestion.run_command(CreateKnowledgeBase(knowledge_base_id=new_id(), settings=settings))

    error = CommandRejected.decode(made.payload).error
    assert error.type == "validation_error"
    assert [detail.loc for detail in error.details or ()] == [["collection_ids", 0], ["file_ids", 1]]
    assert (await ingestion.get("/internal/knowledge-bases")).json()["total"] == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"processing_engine": "weaviate"},
        {"embedding_config": {"provider": "nobody"}},
        {"embedding_config": {"dimensions": 100}},
        {"chunking_strategy": {"chunk_size": 10, "chunk_overlap": 10}},
        {"name": " "},
    ],
)
async def test_what_cannot_be_ingested_with_is_refused_at_once(ingestion: Ingestion, settings: dict[str, str]) -> None:
    body = {"name": "Harbour", **settings}
    made = await ingestion.run_command(unchecked(CreateKnowledgeBase, knowledge_base_id=new_id(), settings=body))
    assert CommandRejected.decode(made.payload).error.type == "validation_error"
