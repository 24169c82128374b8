"""Tombstones go after their time, with the numbers of their events; what is young, alive or still needed stays."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.eventing import Expiry, Retention
from libs.persistence import Database, migrate
from services.artifacts import bootstrap as artifacts
from services.gateway import bootstrap as gateway
from services.ingestion import bootstrap as ingestion
from services.registry import bootstrap as registry
from services.runtime import bootstrap as runtime
from services.timeline import bootstrap as timeline

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
    VALUES ('i', 'old-with-item', 'run-of-item', 'removing');
    INSERT INTO ingestion_runs (id, knowledge_base_id, company_id, index_id, state, correlation_id, changed_at) VALUES
        ('run-old', 'kb-old', 'c', 'gone', 'superseded', 'c', {OLD}),
        ('run-young', 'kb-young', 'c', 'gone', 'superseded', 'c', now()),
        ('run-alive', 'kb-alive', 'c', 'gone', 'completed', 'c', {OLD}),
        ('run-before', 'kb-alive', 'c', 'gone', 'completed', 'c', {OLD}),
        ('run-of-index', 'kb-alive', 'c', 'i', 'completed', 'c', {OLD}),
        ('run-of-item', 'kb-alive', 'c', 'i', 'completed', 'c', {OLD}),
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
    INSERT INTO blobs (id, company_id) VALUES ('b', 'c');
    INSERT INTO artifacts (id, session_id, blob_id, name, content_type, origin, strategy, created_by, correlation_id,
                           size, sha256, deleted_at, platform_state) VALUES
        ('a-old', 's-old', NULL, '', '', 'uploaded', '', '', '', 1, '', {OLD}, 'none'),
        ('a-copying', 's-copying', NULL, '', '', 'uploaded', '', '', '', 1, '', {OLD}, 'copying'),
        ('a-young', 's-young', NULL, '', '', 'uploaded', '', '', '', 1, '', now(), 'none'),
        ('a-alive', 's-alive', 'b', '', '', 'uploaded', '', '', '', 1, '', NULL, 'none');
"""
KEY = "00000000-0000-7000-8000-{:012d}"
GATEWAY_ROWS = f"""
    INSERT INTO companies (id, name, created_at) VALUES ('{KEY.format(0)}', 'c', now());
    INSERT INTO users (id, company_id, name, created_at) VALUES ('{KEY.format(0)}', '{KEY.format(0)}', 'u', now());
    INSERT INTO api_keys (id, company_id, user_id, name, prefix, digest, scopes, created_at, expires_at, revoked_at,
                          successor_id)
    SELECT id::uuid, '{KEY.format(0)}', '{KEY.format(0)}', '', '', id::bytea, '{{}}', now(), expires_at, revoked_at,
           successor::uuid
    FROM (VALUES
        ('{KEY.format(1)}', now() + interval '1 day', {OLD}, NULL), ('{KEY.format(2)}', {OLD}, NULL, NULL),
        ('{KEY.format(3)}', NULL, NULL, NULL), ('{KEY.format(4)}', now(), NULL, '{KEY.format(5)}'),
        ('{KEY.format(5)}', NULL, {OLD}, NULL)
    ) k (id, expires_at, revoked_at, successor);
    INSERT INTO idempotency_keys SELECT '{KEY.format(0)}', '', '', '', day::text, '', '{KEY.format(0)}', '',
           now() - make_interval(days => day) FROM generate_series(1, 5) day
"""
TIMELINE_ROWS = f"""
    INSERT INTO revoked_keys VALUES ('{KEY.format(1)}', {OLD}), ('{KEY.format(2)}', now());
    INSERT INTO webhooks (id, company_id, user_id, key_id, sees_company, url, event_types, description, status,
                          created_at, updated_at, cursor)
    VALUES ('{KEY.format(9)}', '{KEY.format(0)}', '{KEY.format(0)}', '{KEY.format(6)}', false, '', '{{}}', '',
            'disabled', now(), now(), 0);
"""
REGISTRY_ROWS = f"""
    INSERT INTO agents (id, agent_key, company_id, owner_id, is_public, is_shared, allowed_origins, entry_point,
                        version_number, created_at, updated_at, deleted_at)
    SELECT id, id, 'c', 'u', false, false, '{{}}', '', '1', now(), now(), gone
    FROM (VALUES ('old', {OLD}), ('young', now()), ('alive', NULL)) a (id, gone)
"""
CASES = {
    "runtime": (runtime, RUNTIME_ROWS, {"old"}),
    "ingestion": (
        ingestion,
        INGESTION_ROWS,
        {"old", "kb-old", "run-old", "run-before", "run-of-index", "doc-old"},
    ),
    "artifacts": (artifacts, ARTIFACTS_ROWS, {"a-old", "s-old"}),
    "gateway": (gateway, GATEWAY_ROWS, {KEY.format(1), KEY.format(2)}),
    "registry": (registry, REGISTRY_ROWS, {"old"}),
    "timeline": (timeline, TIMELINE_ROWS, set[str]()),
}
MESSAGES = """
    INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, terminal, payload,
                        created_at, published_at)
    SELECT subject || days, 'e', 't', subject, days, 'c', 'c', false, '{}', now() - make_interval(days => days), now()
    FROM unnest(%s::text[]) subject, (SELECT %s::integer AS days) old
"""


@asynccontextmanager
async def migrated(database_url: str, service: str) -> AsyncIterator[Database]:
    await asyncio.to_thread(migrate, database_url, ROOT / "services" / service / "migrations")
    database = Database(database_url, name="test", timeout=30.0)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def ids(database: Database, expiries: Sequence[Expiry]) -> set[str]:
    tables = [(each.id, each.table) for each in expiries if each.id is not None]
    return {row[0] for column, table in tables for row in await database.execute(f"SELECT {column} FROM {table}")}


async def pass_over(database: Database, retention: Retention) -> None:
    async with database.connection() as connection:
        while await retention.purge(connection):
            pass


@pytest.mark.parametrize("service", [service for service, (_, _, gone) in CASES.items() if gone])
@pytest.mark.parametrize("rows", [1, 1000])
async def test_what_has_ended_goes_with_the_numbers_of_its_events(database_url: str, service: str, rows: int) -> None:
    owner, content, gone = CASES[service]
    async with migrated(database_url, service) as database:
        await database.execute(content)
        before = await ids(database, owner.EXPIRIES)
        assert gone < before
        await database.execute("INSERT INTO event_sequences SELECT unnest(%s::text[]), 7", (sorted(before),))
        for _ in range(2):
            retention = Retention(rows=rows, slice_seconds=60)
            for expiry in owner.EXPIRIES:
                retention.add(expiry, DAYS)
            await pass_over(database, retention)
        assert await ids(database, owner.EXPIRIES) == before - gone
        left = {row[0] for row in await database.execute("SELECT subject FROM event_sequences")}
        assert left == before - gone
        if service == "gateway":
            assert await database.execute("SELECT count(*) FROM idempotency_keys") == [(2,)]


async def test_the_timeline_forgets_keys_that_were_revoked_long_ago(database_url: str) -> None:
    async with migrated(database_url, "timeline") as database:
        await database.execute(TIMELINE_ROWS)
        retention = Retention()
        for expiry in timeline.EXPIRIES:
            retention.add(expiry, DAYS)
        await pass_over(database, retention)
        assert await database.execute("SELECT id::text FROM revoked_keys") == [(KEY.format(2),)]


async def test_a_row_that_is_not_needed_any_more_goes_with_the_next_pass_though_older_ones_went_before(
    database_url: str,
) -> None:
    async with migrated(database_url, "ingestion") as database:
        await database.execute(INGESTION_ROWS)
        retention = Retention()
        for expiry in ingestion.EXPIRIES:
            retention.add(expiry, DAYS)
        await pass_over(database, retention)
        documents = "SELECT artifact_id FROM artifact_documents WHERE state = 'deleted' ORDER BY 1"
        assert await database.execute(documents) == [("doc-leaving",), ("doc-young",)]
        await database.execute("UPDATE artifact_documents SET index_id = NULL WHERE artifact_id = 'doc-leaving'")
        await pass_over(database, retention)
        assert await database.execute(documents) == [("doc-young",)]


@pytest.mark.parametrize("service", CASES)
async def test_numbers_go_with_the_last_message_about_what_is_no_entity(database_url: str, service: str) -> None:
    owner, content, _ = CASES[service]
    async with migrated(database_url, service) as database:
        await database.execute(content)
        known = {
            row[0]
            for each in owner.ENTITIES
            for row in await database.execute(f"SELECT {each.id}::text FROM {each.table}")
        }
        subjects = sorted({*known, "a rejected command", "", KEY.format(77)})
        await database.execute("INSERT INTO event_sequences SELECT unnest(%s::text[]), 20", ([*subjects, "busy"],))
        await database.execute(MESSAGES, ([*subjects, "busy"], 9))
        await database.execute(MESSAGES, (["busy"], 1))
        retention = Retention(rows=3)
        retention.register_subject_tables(*owner.ENTITIES)
        await pass_over(database, retention)
        assert await database.execute("SELECT DISTINCT subject FROM outbox") == [("busy",)]
        left = {row[0] for row in await database.execute("SELECT subject FROM event_sequences")}
        assert left == {*known, "busy"}
