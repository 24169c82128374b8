"""Tombstones go after their time, with the numbers of their events; what is young, alive or still needed stays."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.eventing import Expiry
from libs.eventing._retention import Retention
from libs.persistence import Database, migrate
from services.artifacts.adapters.postgres.expiry import EXPIRIES as ARTIFACTS
from services.ingestion.adapters.postgres.expiry import EXPIRIES as INGESTION
from services.runtime.adapters.postgres.expiry import EXPIRIES as RUNTIME

ROOT = Path(__file__).parents[3]
DAYS = 35
OLD = "now() - interval '36 days'"
RUNTIME_ROWS = f"""
    INSERT INTO session_tombstones VALUES ('old', 'c', {OLD}), ('young', 'c', now())
"""
INGESTION_ROWS = f"""
    INSERT INTO blobs (id, company_id, state) VALUES ('b', 'c', 'uploading');
    INSERT INTO files (id, company_id, blob_id, name, content_type, size, sha256, created_by, created_at, deleted_at)
    SELECT id, 'c', CASE WHEN gone IS NULL THEN 'b' END, '', '', 1, '', 'u', {OLD}, gone FROM (VALUES
        ('old', {OLD}), ('old-with-item', {OLD}), ('young', now()), ('alive', NULL)) f (id, gone);
    INSERT INTO knowledge_bases (id, company_id, name, description, collection_ids, file_ids, settings, llm_config,
                                 created_by, created_by_name, company_name, run_id, deleting_at, deleted_at)
    SELECT 'kb-' || id, 'c', '', '', '{{}}', '{{}}', '{{}}', '{{}}', 'u', '', '', 'run-' || id, gone, gone FROM (VALUES
        ('old', {OLD}), ('young', now()), ('alive', NULL)) k (id, gone);
    INSERT INTO knowledge_base_indexes (id, knowledge_base_id, engine, settings, settings_hash, state)
    VALUES ('i', 'kb-alive', 'pgvector', '{{}}', '', 'live');
    INSERT INTO ingestion_items (index_id, file_id, run_id, state)
    VALUES ('i', 'old-with-item', 'run-alive', 'removing');
    INSERT INTO ingestion_runs (id, knowledge_base_id, company_id, index_id, state, correlation_id, changed_at) VALUES
        ('run-old', 'kb-old', 'c', 'gone', 'superseded', 'c', {OLD}),
        ('run-young', 'kb-young', 'c', 'gone', 'superseded', 'c', now()),
        ('run-alive', 'kb-alive', 'c', 'gone', 'completed', 'c', {OLD}),
        ('run-before', 'kb-alive', 'c', 'gone', 'completed', 'c', {OLD}),
        ('run-of-index', 'kb-alive', 'c', 'i', 'completed', 'c', {OLD}),
        ('run-active', 'kb-alive', 'c', 'gone', 'running', 'c', {OLD});
    INSERT INTO artifact_documents (artifact_id, company_id, session_id, name, content_type, correlation_id, state,
                                    index_id, changed_at) VALUES
        ('doc-old', 'c', 's', '', '', '', 'deleted', NULL, {OLD}),
        ('doc-leaving', 'c', 's', '', '', '', 'deleted', 'i', {OLD}),
        ('doc-young', 'c', 's', '', '', '', 'deleted', NULL, now()),
        ('doc-alive', 'c', 's', '', '', '', 'indexed', 'i', {OLD});
"""
ARTIFACTS_ROWS = f"""
    INSERT INTO sessions (id, company_id, owner_id, deleted_at) VALUES
        ('s-old', 'c', '', {OLD}), ('s-copying', 'c', '', {OLD}),
        ('s-young', 'c', '', now()), ('s-alive', 'c', '', NULL);
    INSERT INTO artifacts (id, session_id, state, name, content_type, origin, strategy, created_by, correlation_id,
                           size, sha256, bytes_gone_at, platform_state) VALUES
        ('a-old', 's-old', 'deleted', '', '', 'uploaded', '', '', '', 1, '', {OLD}, 'none'),
        ('a-copying', 's-copying', 'deleted', '', '', 'uploaded', '', '', '', 1, '', {OLD}, 'copying'),
        ('a-young', 's-young', 'deleted', '', '', 'uploaded', '', '', '', 1, '', now(), 'none'),
        ('a-alive', 's-alive', 'stored', '', '', 'uploaded', '', '', '', 1, '', NULL, 'none');
"""
CASES = {
    "runtime": (RUNTIME, RUNTIME_ROWS, {"old"}),
    "ingestion": (INGESTION, INGESTION_ROWS, {"old", "kb-old", "run-old", "run-before", "doc-old"}),
    "artifacts": (ARTIFACTS, ARTIFACTS_ROWS, {"a-old", "s-old"}),
}


async def ids(database: Database, expiries: Sequence[Expiry]) -> set[str]:
    return {row[0] for each in expiries for row in await database.execute(f"SELECT {each.id} FROM {each.table}")}


@pytest.mark.parametrize("service", CASES)
async def test_old_tombstones_go_with_the_numbers_of_their_events(database_url: str, service: str) -> None:
    await asyncio.to_thread(migrate, database_url, ROOT / "services" / service / "migrations")
    expiries, rows, gone = CASES[service]
    database = Database(database_url, name="test")
    await database.open()
    try:
        await database.execute(rows)
        before = await ids(database, expiries)
        await database.execute("INSERT INTO event_sequences SELECT unnest(%s::text[]), 7", (sorted(before),))
        for _ in range(2):
            retention = Retention(slice_seconds=60)
            for expiry in expiries:
                retention.add(expiry, DAYS)
            async with database.connection() as connection:
                await retention.keep(connection)
        assert await ids(database, expiries) == before - gone
        left = {row[0] for row in await database.execute("SELECT subject FROM event_sequences")}
        assert left == before - gone
    finally:
        await database.close()
