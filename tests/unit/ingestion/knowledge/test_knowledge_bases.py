"""The public form of a knowledge base."""

from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.resources.knowledge_bases import ChunkingStrategy, DatasourceError
from services.ingestion.domain.knowledge_bases import (
    IndexSettings,
    KnowledgeBaseView,
    Progress,
    Source,
    StoredKnowledgeBase,
    normalized,
)

SETTINGS = IndexSettings("pgvector", ChunkingStrategy(), "wordllama", "l2_supercat", 256)
ERROR = DatasourceError(code="damaged", message="no", phase="parsing", attempt=1, retryable=False)


def stored(**changes: Any) -> StoredKnowledgeBase:
    now = datetime(2026, 5, 4, 8, 15, tzinfo=UTC)
    fields: dict[str, Any] = {
        "id": "kb", "company_id": "c", "name": "Röntgen & Co. 7", "description": "", "collection_ids": (),
        "file_ids": (), "settings": SETTINGS, "llm_config": {}, "created_by": "u", "created_by_name": "Ada",
        "company_name": "Acme", "created_at": now, "updated_at": now,
    }  # fmt: skip
    return StoredKnowledgeBase(**(fields | changes))


def source(number: int, **changes: Any) -> Source:
    return Source(f"file-{number}", f"{number}.md", "active", **changes)


def test_before_an_ingestion_everything_waits() -> None:
    told = KnowledgeBaseView(stored(), (source(1), source(2))).public()

    assert (told.status, told.progress, told.success_rate) == ("pending", 0, 0.0)
    assert (told.datasource_count, told.total_datasources) == (0, 2)
    assert {each.ingestion_status for each in told.datasource_snapshots.values()} == {"pending"}
    assert told.processing_metadata["phase"] == ""


def test_while_it_runs_the_phase_is_the_one_most_files_are_in() -> None:
    sources = (
        source(1, state="ingested", chunks=4),
        source(2, state="running", phase="embedding", chunks=6),
        source(3, state="running", phase="embedding", chunks=2),
        source(4, state="running", phase="parsing"),
    )

    told = KnowledgeBaseView(stored(status="running"), sources, "running").public()

    assert told.progress == 25
    assert told.processing_metadata == {
        "phase": "embedding", "total_chunks": 12, "processed_chunks": 4, "message": "1 of 4 files done."
    }  # fmt: skip
    assert told.datasource_snapshots["file-2"].ingestion_status == "running"


def test_at_the_end_failures_stand_beside_what_was_ingested() -> None:
    sources = (source(1, state="ingested", chunks=4), source(2, state="failed", error=ERROR))

    told = KnowledgeBaseView(stored(status="failed"), sources, "failed").public()

    assert (told.progress, told.success_rate) == (100, 50.0)
    assert [each.id for each in told.ingested_datasources] == ["file-1"]
    assert [each.id for each in told.failed_datasources] == ["file-2"]
    assert told.datasource_errors == {"file-2": ERROR}
    assert told.datasource_snapshots["file-2"].ingestion_status == "failed"


def test_a_completed_one_has_nothing_to_tell_of_its_progress() -> None:
    told = KnowledgeBaseView(stored(status="completed"), (source(1, state="ingested"),), "completed").public()

    assert (told.progress, told.processing_metadata) == (100, {})


def test_progress_reaches_100_only_at_the_end() -> None:
    done = Progress(total=3, ingested=3)

    assert (done.percent(ended=False), done.percent(ended=True)) == (99, 100)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Röntgen & Co. 7", "rontgen_co_7"), ("  Über--uns  ", "uber_uns"), ("Straße", "strasse"), ("契約", "")],
)
def test_names_are_normalized(name: str, expected: str) -> None:
    assert normalized(name) == expected


@pytest.mark.parametrize(("size", "overlap"), [(512, 64), (2000, 64), (80, 10), (1, 0)])
def test_an_overlap_that_is_not_given_fits_the_size(size: int, overlap: int) -> None:
    assert ChunkingStrategy(chunk_size=size).chunk_overlap == overlap


def test_another_setting_is_another_index() -> None:
    same = IndexSettings("pgvector", ChunkingStrategy(), "wordllama", "l2_supercat", 256)
    others = [
        IndexSettings("weaviate", ChunkingStrategy(), "wordllama", "l2_supercat", 256),
        IndexSettings("pgvector", ChunkingStrategy(chunk_size=100), "wordllama", "l2_supercat", 256),
        IndexSettings("pgvector", ChunkingStrategy(), "wordllama", "l2_supercat", 64),
    ]

    assert same.hash() == SETTINGS.hash()
    assert len({SETTINGS.hash(), *(each.hash() for each in others)}) == 4
