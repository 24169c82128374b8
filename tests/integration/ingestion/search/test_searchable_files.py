"""Searchable files, read from a real database."""

import pytest

from libs.contracts.resources.knowledge_bases import SearchFilters
from libs.persistence import Database
from services.ingestion.adapters.postgres.files import PostgresSearchableFiles

COMPANY, INDEX = "company", "index"


async def add_file(
    database: Database,
    file_id: str,
    *,
    company: str = COMPANY,
    tags: tuple[str, ...] = (),
    collection: str | None = None,
    active: bool = True,
    deleted: bool = False,
    indexed: bool = True,
) -> None:
    async with database.transaction() as connection:
        if not deleted:
            await connection.execute(
                "INSERT INTO blobs (id, company_id, state, sha256) VALUES (%s, %s, 'stored', %s)",
                (f"blob-{file_id}", company, file_id),
            )
        await connection.execute(
            """
            INSERT INTO files (id, company_id, blob_id, name, content_type, size, sha256, status, tags, created_by,
                deleted_at)
            VALUES (%s, %s, %s, %s, 'text/plain', 1, 'hash', %s, %s, 'user', CASE WHEN %s THEN now() END)
            """,
            (
                file_id,
                company,
                None if deleted else f"blob-{file_id}",
                f"{file_id}.txt",
                "active" if active else "inactive",
                list(tags),
                deleted,
            ),
        )
        if collection is not None:
            await connection.execute(
                """
                INSERT INTO collections (id, company_id, name, description, created_by, published, correlation_id)
                VALUES (%s, %s, 'c', '', 'user', '{}', 'c') ON CONFLICT DO NOTHING
                """,
                (collection, company),
            )
            await connection.execute("INSERT INTO collection_files VALUES (%s, %s)", (collection, file_id))
        if indexed:
            await _index(database, file_id)


async def _index(database: Database, file_id: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(
            """
            INSERT INTO knowledge_bases (id, company_id, name, description, collection_ids, file_ids, settings,
                llm_config, created_by, created_by_name, company_name)
            VALUES ('kb', %s, 'k', '', '{}', '{}', '{}', '{}', 'user', '', '') ON CONFLICT DO NOTHING
            """,
            (COMPANY,),
        )
        await connection.execute(
            """
            INSERT INTO knowledge_base_indexes (id, knowledge_base_id, engine, settings, settings_hash)
            VALUES (%s, 'kb', 'pgvector', '{}', '') ON CONFLICT DO NOTHING
            """,
            (INDEX,),
        )
        await connection.execute(
            "INSERT INTO ingestion_items (index_id, file_id, run_id) VALUES (%s, %s, 'run')", (INDEX, file_id)
        )


@pytest.fixture
async def files(database: Database) -> PostgresSearchableFiles:
    await add_file(database, "plain")
    await add_file(database, "tagged", tags=("red", "blue"))
    await add_file(database, "collected", tags=("red",), collection="shelf")
    await add_file(database, "inactive", tags=("red",), collection="shelf", active=False)
    await add_file(database, "deleted", tags=("red",), deleted=True)
    await add_file(database, "elsewhere", tags=("red",), collection="shelf", indexed=False)
    return PostgresSearchableFiles(database)


async def test_without_filters_all_but_inactive_and_deleted_files_answer(files: PostgresSearchableFiles) -> None:
    selection = await files.select(COMPANY, INDEX, SearchFilters())
    assert selection.only is None
    assert selection.without == {"inactive", "deleted"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tags": ["red"]}, {"tagged", "collected"}),
        ({"tags": ["blue", "green"]}, {"tagged"}),
        ({"collection_ids": ["shelf", "unknown"]}, {"collected"}),
        ({"file_ids": ["plain", "inactive", "elsewhere"]}, {"plain"}),
        ({"file_ids": ["plain", "tagged"], "tags": ["red"]}, {"tagged"}),
        ({"tags": ["green"]}, set()),
    ],
)
async def test_filters_select_active_files(
    files: PostgresSearchableFiles, filters: dict[str, list[str]], expected: set[str]
) -> None:
    selection = await files.select(COMPANY, INDEX, SearchFilters.model_validate(filters))
    assert selection.only == expected


async def test_files_of_other_companies_never_answer(files: PostgresSearchableFiles) -> None:
    assert (await files.select("other", INDEX, SearchFilters(tags=["red"]))).only == set()
    assert await files.names("other", ["plain"]) == {}


async def test_names_are_those_of_active_files(files: PostgresSearchableFiles) -> None:
    names = await files.names(COMPANY, ["plain", "inactive", "deleted", "unknown"])
    assert names == {"plain": "plain.txt"}
