"""Artifacts become usable, or say why not, whatever happens in between."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from libs.contracts.errors import StoreBusy
from libs.contracts.resources.artifacts import ArtifactReady
from libs.fairness import Capacity
from libs.persistence import ReclaimWork
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactWriter
from services.artifacts.adapters.postgres.table_jobs import PostgresTableJobs
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.postgres.artifact_documents import PostgresArtifactJobs
from services.ingestion.adapters.postgres.holders import PostgresHolders
from services.ingestion.domain.engines import EngineUnavailable
from services.ingestion.use_cases.index_care import InspectArtifactIndexes
from tests.integration.artifacts.world import World, person
from tests.support.office_files import xls, xlsx

FARES = [["port", "price", "day"], ["Aberdeen", 12.5, "2026-05-04"], ["Kirkwall", 30, "2026-05-05"]]
CSV = "port;price;code\nAberdeen;12.5;007\nKirkwall;30;\nÅlesund;7;x\n"


def failing_first(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, problems: list[Exception]) -> None:
    """The method raises those problems before it does its work."""
    real = getattr(owner, method)

    async def flaky(*arguments: Any, **named: Any) -> Any:
        if problems:
            raise problems.pop()
        return await real(*arguments, **named)

    monkeypatch.setattr(owner, method, flaky)


async def preview(world: World, artifact: dict[str, Any], **parameters: Any) -> Any:
    path = f"/sessions/{artifact['session_id']}/artifacts/{artifact['artifact_id']}/preview"
    return await world.call("GET", path, params=parameters)


async def test_tables_are_found_in_every_format(world: World) -> None:
    session = world.session()
    book = await world.artifact(session, "fares.xlsx", xlsx({"Fares": FARES, "Empty": []}))
    old = await world.artifact(session, "fares.xls", xls(FARES))
    plain = await world.artifact(session, "fares.csv", CSV.encode("latin-1"))
    objects = [{"port": "Aberdeen", "price": 12.5}, {"port": "Kirkwall", "stops": [1, 2]}]
    listed = await world.artifact(session, "fares.json", json.dumps(objects).encode())

    await world.settle()

    assert (await preview(world, book)).json() == {
        "sheets": [
            {
                "name": "Fares",
                "headers": ["port", "price", "day"],
                "types": ["text", "number", "text"],
                "rows": [["Aberdeen", 12.5, "2026-05-04"], ["Kirkwall", 30, "2026-05-05"]],
                "row_count": 2,
            },
            {"name": "Empty", "headers": [], "types": [], "rows": [], "row_count": 0},
        ]
    }
    assert (await preview(world, old)).json()["sheets"][0]["row_count"] == 2
    sheet = (await preview(world, plain, rows=2)).json()["sheets"][0]
    assert (sheet["headers"], sheet["types"]) == (["port", "price", "code"], ["text", "number", "text"])
    assert (sheet["rows"], sheet["row_count"]) == ([["Aberdeen", 12.5, "007"], ["Kirkwall", 30, None]], 3)
    sheet = (await preview(world, listed)).json()["sheets"][0]
    assert (sheet["headers"], sheet["types"]) == (["port", "price", "stops"], ["text", "number", "json"])
    record = await world.record(book)
    assert (record["processing_status"], record["metadata"]) == ("ready", {"sheets": 2, "rows": 2})
    assert await world.told(book) == ["artifact.uploaded", "artifact.progress", "artifact.ready"]


async def test_tables_of_equal_bytes_are_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, read = _tables(world).reader, []
    real = reader.read

    async def counted(self: Any, path: Path, content_type: str) -> Any:
        read.append(content_type)
        return await real(path, content_type)

    monkeypatch.setattr(type(reader), "read", counted)
    session = world.session()
    previews = []
    for name in ("first.csv", "second.csv"):
        artifact = await world.artifact(session, name, CSV.encode("latin-1"))
        await world.settle()
        previews.append((await preview(world, artifact)).json())

    assert read == ["text/csv"]
    assert previews[0] == previews[1]
    assert previews[0]["sheets"][0]["row_count"] == 3


async def test_what_holds_no_table_has_no_preview(world: World) -> None:
    session = world.session()
    document = await world.artifact(session, "a.txt", b"text")
    tree = await world.artifact(session, "tree.json", b'{"a": 1}')
    broken = await world.artifact(session, "broken.json", b'[{"a": 1},')
    damaged = await world.artifact(session, "damaged.xlsx", b"PK\x03\x04" + b"\0" * 100)

    await world.settle()

    assert [(await preview(world, each)).status_code for each in (document, tree)] == [415, 415]
    assert (await world.record(tree))["processing_status"] == "ready"
    for each in (broken, damaged):
        record = await world.record(each)
        assert (record["processing_status"], record["error"]["type"]) == ("failed", "validation_error")
        assert (await preview(world, each)).status_code == 409
        assert (await world.told(each))[-1] == "artifact.failed"


async def test_a_bomb_costs_its_own_process_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = world.session()
    rows = [["a"], *([["x" * 200]] * 5)]
    bomb = xlsx({"S": rows})
    bomb = await world.artifact(session, "bomb.xlsx", bomb)
    # As with a file that takes forever to read.
    reader = _tables(world).reader
    monkeypatch.setattr(reader, "seconds", 0.001)

    await world.settle()

    record = await world.record(bomb)
    assert record["processing_status"] == "failed"
    assert "took longer than" in record["error"]["message"]


@pytest.mark.failover("tables and documents of artifacts")
async def test_tables_of_a_killed_process_are_read_before_their_leases_end(world: World) -> None:
    gone, database = 7, world.artifacts.database
    jobs = PostgresTableJobs(database, lambda: gone)
    lost = await world.artifact(world.session(), "a.csv", b"a,b\n1,2\n")
    put_off = await world.artifact(world.session(), "b.csv", b"a,b\n1,2\n")
    claimed = {job.artifact.id: job for job in await jobs.claim(Capacity(5, 5), 600)}
    await jobs.postpone(claimed[put_off["artifact_id"]].lease, 600, counts=False)
    assert await world.maintain("tables.read") == 0, "it is in somebody's hands"

    await ReclaimWork(jobs, {gone + 1}.intersection)()
    assert await world.maintain("tables.read") == 0, "its holder is there"
    await ReclaimWork(jobs, {gone}.intersection)()
    assert await world.maintain("tables.read") == 1, "the other one waits for its pause"

    assert (await world.record(lost))["processing_status"] == "ready"
    assert (await world.record(put_off))["processing_status"] == "pending", "its pause is nobody's"
    async with world.artifacts.outbox.transaction() as transaction:
        late = ArtifactReady(artifact_id=lost["artifact_id"], session_id=lost["session_id"], metadata={})
        await PostgresArtifactWriter(transaction).ready(late, lease=claimed[late.artifact_id].lease)
        assert transaction.drafts == []


async def test_a_file_that_kills_its_process_each_time_fails(world: World) -> None:
    artifact = await world.artifact(world.session(), "a.csv", b"a,b\n1,2\n")
    await world.rows("artifacts", "UPDATE artifacts SET attempts = 3")
    await world.settle()
    assert (await world.record(artifact))["processing_status"] == "failed"


async def test_a_document_is_indexed_read_and_searched(world: World) -> None:
    session = world.session()
    ferry = await world.artifact(session, "ferry.md", b"# Ferries\nThe ferry to Lerwick leaves at seven.")
    cabin = await world.artifact(session, "cabin.txt", b"The cabin key is at deck five.")
    elsewhere = await world.artifact(world.session(), "other.txt", b"The ferry to Lerwick is full.")
    place = f"/sessions/{session}/artifacts"
    early = await world.call("GET", f"{place}/{ferry['artifact_id']}/text")
    assert early.status_code == 409

    await world.settle()

    record = await world.record(ferry)
    assert record["processing_status"] == "ready"
    assert record["metadata"] == {"characters": 47, "passages": 1}
    told = await world.told(ferry)
    assert (told[0], told[-1], set(told[1:-1])) == ("artifact.uploaded", "artifact.ready", {"artifact.progress"})
    text = (await world.call("GET", f"{place}/{ferry['artifact_id']}/text", params={"offset": 2, "limit": 7})).json()
    assert text == {"artifact_id": ferry["artifact_id"], "text": "Ferries", "offset": 2, "characters": 47}
    for mode in ("hybrid", "semantic", "keyword"):
        body = {"query": "When does the ferry to Lerwick leave?", "mode": mode}
        found = (await world.call("POST", f"{place}/search", json=body)).json()["results"]
        assert (found[0]["artifact_id"], found[0]["name"]) == (ferry["artifact_id"], "ferry.md"), mode
        assert elsewhere["artifact_id"] not in {each["artifact_id"] for each in found}
    only = {"query": "ferry", "artifact_ids": [cabin["artifact_id"], elsewhere["artifact_id"]]}
    found = (await world.call("POST", f"{place}/search", json=only)).json()["results"]
    assert {each["artifact_id"] for each in found} <= {cabin["artifact_id"]}


async def test_documents_whose_index_was_lost_are_an_outage_until_they_are_indexed_again(world: World) -> None:
    session = world.session()
    first = await world.artifact(session, "ferry.md", b"The ferry to Lerwick leaves at seven.")
    await world.settle()
    events = await world.told(first)
    place, body = f"/sessions/{session}/artifacts", {"query": "ferry to Lerwick"}

    async def lose() -> None:
        [index] = await world.rows("ingestion", "SELECT number FROM search.indexes")
        await world.rows("ingestion", f"DROP TABLE search.passages_{index['number']}")
        assert (await world.call("POST", f"{place}/search", json=body)).status_code == 503

    async def found() -> set[str]:
        answer = await world.call("POST", f"{place}/search", json=body)
        assert answer.status_code == 200, answer.text
        return {each["name"] for each in answer.json()["results"]}

    await lose()
    inspect = InspectArtifactIndexes(
        PostgresArtifactJobs(world.ingestion.database, world.ingestion.outbox),
        {"pgvector": PgvectorEngine(world.ingestion.database)},
    )
    assert [await inspect() for _ in range(2)] == [0, 1]
    again = await world.call("POST", f"{place}/search", json=body)
    assert again.status_code == 503
    assert int(again.headers["Retry-After"]) > 0
    assert (await world.call("GET", f"{place}/{first['artifact_id']}/text")).status_code == 200
    await world.settle()
    assert await found() == {"ferry.md"}
    assert await world.told(first) == events, "for its owner it was ready all the time"

    await lose()
    await world.artifact(session, "later.md", b"Another ferry to Lerwick leaves at nine.")
    await world.settle()
    assert await found() == {"ferry.md", "later.md"}


async def test_a_session_of_very_many_documents_is_searched_as_a_whole(world: World) -> None:
    session = world.session()
    ferry = await world.artifact(session, "ferry.md", b"The ferry to Lerwick leaves at seven.")
    await world.settle()
    await world.rows(
        "artifacts",
        """INSERT INTO artifacts (id, session_id, name, content_type, origin, strategy, created_by, correlation_id,
                                  blob_id, status, size, sha256)
           SELECT 'other-' || n, session_id, name, content_type, origin, strategy, created_by, correlation_id,
                  blob_id, status, size, sha256
           FROM artifacts, generate_series(1, 250) AS n WHERE id = %s""",
        ferry["artifact_id"],
    )
    found = await world.call("POST", f"/sessions/{session}/artifacts/search", json={"query": "ferry"})
    assert [each["artifact_id"] for each in found.json()["results"]] == [ferry["artifact_id"]]


async def test_a_document_that_cannot_be_read_fails_with_the_reason(world: World) -> None:
    session = world.session()
    broken = await world.artifact(session, "broken.txt", b"x")
    blank = await world.artifact(session, "blank.txt", b" \n ")
    world.reader.broken.add("broken.txt")

    await world.settle()

    for artifact, reason in ((broken, "The file is damaged."), (blank, "The document contains no text.")):
        record = await world.record(artifact)
        assert (record["processing_status"], record["error"]["message"]) == ("failed", reason)
    path = f"/sessions/{session}/artifacts/{broken['artifact_id']}/text"
    assert (await world.call("GET", path)).status_code == 409


async def test_indexing_ends_once_however_often_it_is_told_or_begun(world: World) -> None:
    artifact = await world.artifact(world.session(), "a.txt", b"The ferry leaves at seven.")
    await world.relay()
    claimed = await world.indexing.jobs.claim(Capacity(5, 5), 60)
    assert len(claimed) == 1
    assert await world.indexing() == 0, "the worker that died still has it"
    await world.rows("ingestion", "UPDATE artifact_documents SET lease_until = now() - interval '1 second'")

    await world.settle()
    world.forget_passed()
    await world.settle()

    assert (await world.told(artifact)).count("artifact.ready") == 1
    assert not await world.indexing.jobs.indexed(claimed[0], characters=1, chunks=1), "it comes too late"
    rows = await world.rows("ingestion", "SELECT state, attempts FROM artifact_documents")
    assert rows == [{"state": "indexed", "attempts": 2}]


async def test_documents_of_a_killed_process_are_indexed_before_their_leases_end(world: World) -> None:
    gone, ingestion = 7, world.ingestion
    jobs = PostgresArtifactJobs(ingestion.database, ingestion.outbox, lambda: gone)
    reclaim = ReclaimWork(PostgresHolders(ingestion.database), {gone}.intersection)
    lost = await world.artifact(world.session(), "a.txt", b"The ferry leaves at seven.")
    put_off = await world.artifact(world.session(), "b.txt", b"The ferry leaves at eight.")
    await world.relay()
    claimed = {job.artifact_id: job for job in await jobs.claim(Capacity(5, 5), 600)}
    await jobs.postpone(claimed[put_off["artifact_id"]], 600, counts=False)
    await reclaim()
    await world.settle()

    assert (await world.told(lost)).count("artifact.ready") == 1
    assert not await jobs.indexed(claimed[lost["artifact_id"]], characters=1, chunks=1), "it comes too late"
    waiting = await world.rows("ingestion", "SELECT artifact_id FROM artifact_documents WHERE state = 'pending'")
    assert [row["artifact_id"] for row in waiting] == [put_off["artifact_id"]], "its pause is nobody's"


async def test_an_outage_costs_no_attempt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    document = await world.artifact(world.session(), "a.txt", b"The ferry leaves at seven.")
    table = await world.artifact(world.session(), "a.csv", b"a,b\n1,2\n")
    content = world.store._root  # type: ignore[attr-defined]
    content.rename(content.with_name("away"))
    await world.relay()
    for _ in range(5):
        await world.maintain("tables.read")
        await world.indexing()
        await world.rows("artifacts", "UPDATE artifacts SET lease_until = NULL")
        await world.rows("ingestion", "UPDATE artifact_documents SET lease_until = NULL")
    assert [(await world.record(each))["processing_status"] for each in (document, table)] == ["pending", "pending"]

    content.with_name("away").rename(content)
    await world.settle()

    assert [(await world.record(each))["processing_status"] for each in (document, table)] == ["ready", "ready"]


async def test_an_outage_at_the_very_end_costs_no_attempt_and_no_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.artifact(world.session(), "a.csv", b"a,b\n1,2\n")
    document = await world.artifact(world.session(), "a.txt", b"The ferry leaves at seven.")
    away: list[list[Exception]] = [[psycopg.OperationalError("the connection is lost")] for _ in range(2)]
    failing_first(monkeypatch, PostgresArtifactWriter, "ready", away[0])
    failing_first(monkeypatch, PostgresArtifactJobs, "indexed", away[1])

    await world.settle()

    assert away == [[], []]
    assert [(await world.record(each))["processing_status"] for each in (document, table)] == ["ready", "ready"]
    where = f"WHERE id = '{table['artifact_id']}'"
    assert await world.rows("artifacts", f"SELECT attempts FROM artifacts {where}") == [{"attempts": 1}]
    assert await world.rows("ingestion", "SELECT attempts FROM artifact_documents") == [{"attempts": 1}]


async def test_deadlocks_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    document = await world.artifact(world.session(), "a.txt", b"The ferry leaves at seven.")
    await world.relay()

    async def write(*_: Any) -> None:
        raise EngineUnavailable("no answer") from StoreBusy()

    monkeypatch.setattr(PgvectorEngine, "write", write)
    for _ in range(4):
        await world.indexing()
        await world.rows("ingestion", "UPDATE artifact_documents SET lease_until = NULL")
    await world.relay()
    assert (await world.record(document))["processing_status"] == "failed"


async def test_lost_bytes_end_as_a_failure(world: World) -> None:
    session = world.session()
    table = await world.artifact(session, "a.csv", b"a,b\n1,2\n")
    document = await world.artifact(session, "a.txt", b"The ferry leaves at seven.")
    for artifact in (table, document):
        await world.lose_bytes(artifact)
    for _ in range(3):
        await world.settle()
        await world.rows("artifacts", "UPDATE artifacts SET lease_until = NULL")
        await world.rows("ingestion", "UPDATE artifact_documents SET lease_until = NULL")
    await world.settle()

    for artifact in (table, document):
        record = await world.record(artifact)
        assert (record["processing_status"], "content is missing" in record["error"]["message"]) == ("failed", True)


def _tables(world: World) -> Any:
    run: Any = next(run for task, run, _ in world.artifacts.lifecycle._background if task == "tables.read")
    return run.__self__.work


async def test_companies_take_turns(world: World) -> None:
    """A claim is of both, however many of one wait longer; who has all of its places is passed over."""
    for owner, names in ((person(), "abcd"), (person("carol", "company-2"), "e")):
        session = world.session(owner)
        for name in names:
            for ending, content in (("csv", b"a,b\n1,2\n"), ("txt", b"The ferry leaves at seven.")):
                assert (await world.upload(session, f"{name}.{ending}", content, owner)).status_code == 201
    await world.relay()
    both = ["company-1", "company-2"]
    busy = {"company-1": 2}

    tables = await _tables(world).jobs.claim(Capacity(2, 2), 600)
    documents = await world.indexing.jobs.claim(Capacity(2, 2), 600)
    more_tables = await _tables(world).jobs.claim(Capacity(1, 2, busy), 600)
    more_documents = await world.indexing.jobs.claim(Capacity(1, 2, busy), 600)
    others_tables = await _tables(world).jobs.claim(Capacity(2, 2, {"company-1": 1}), 600)
    others_documents = await world.indexing.jobs.claim(Capacity(2, 2, {"company-1": 1}), 600)

    assert sorted(job.artifact.company_id for job in tables) == both
    assert sorted(job.company_id for job in documents) == both
    assert (more_tables, more_documents) == ([], [])
    assert [job.artifact.company_id for job in others_tables] == ["company-1"]
    assert [job.company_id for job in others_documents] == ["company-1"]
