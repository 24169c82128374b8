"""When a session ends, everything of it goes, and what comes late creates nothing."""

from libs.contracts.resources.artifacts import ArtifactUploaded
from tests.integration.artifacts.world import World


async def test_bytes_texts_and_passages_are_gone(each_store: World) -> None:
    session, other = each_store.session(), each_store.session()
    document = await each_store.artifact(session, "a.txt", b"The ferry to Lerwick leaves at seven.")
    await each_store.artifact(session, "a.csv", b"a,b\n1,2\n")
    kept = await each_store.artifact(other, "b.txt", b"The ferry to Lerwick is full.")
    await each_store.settle()
    assert len(await each_store.stored()) == 4

    await each_store.delete_session(session)
    await each_store.delete_session(session)
    await each_store.settle()

    assert await each_store.stored() == [await each_store.original_of(kept)]
    assert [entry.key async for entry in each_store.files.entries()] == [f"artifacts/{kept['artifact_id']}/text"]
    engine = each_store.indexing.engines["pgvector"]
    (index,) = await each_store.rows(
        "ingestion", "SELECT DISTINCT index_id FROM artifact_documents WHERE index_id > ''"
    )
    assert await engine.count(index["index_id"]) == 1
    assert (await each_store.told(document))[-1] == "artifact.deleted"
    for path in (f"/sessions/{session}/artifacts", f"/artifacts/{document['artifact_id']}"):
        assert (await each_store.call("GET", path)).status_code == 404
    rows = await each_store.rows("artifacts", "SELECT name, blob_id FROM artifacts WHERE session_id = %s", session)
    assert rows == [{"name": "", "blob_id": None}] * 2, "tombstones, which say nothing of what was there"
    assert (await each_store.record(kept))["processing_status"] == "ready"


async def test_a_session_that_was_never_met_leaves_a_tombstone(world: World) -> None:
    session = world.session()
    await world.delete_session(session)
    assert (await world.upload(session, "a.txt", b"x")).status_code == 404
    assert (await world.call("GET", f"/sessions/{session}/artifacts")).status_code == 404


async def test_a_deletion_in_the_middle_of_indexing_leaves_nothing(world: World) -> None:
    session = world.session()
    artifact = await world.artifact(session, "a.txt", b"The ferry leaves at seven.")
    await world.relay()
    parse = world.reader.parse

    async def deleted_meanwhile(*what, **options):
        await world.delete_session(session)
        await world.relay()
        return await parse(*what, **options)

    world.reader.parse = deleted_meanwhile  # type: ignore[method-assign]
    await world.settle()

    assert [entry.key async for entry in world.files.entries()] == []
    assert await world.stored() == []
    assert "artifact.ready" not in await world.told(artifact)


async def test_an_upload_told_after_its_deletion_is_not_indexed(world: World) -> None:
    session = world.session()
    artifact = await world.artifact(session, "a.txt", b"The ferry leaves at seven.")
    record = ArtifactUploaded.model_validate({"artifact": artifact})
    await world.delete_session(session)
    await world.settle()

    await world._deliver(world.ingestion, record.TYPE, record, "company-1", artifact["artifact_id"])
    await world.settle()

    rows = await world.rows("ingestion", "SELECT state FROM artifact_documents")
    assert rows == [{"state": "deleted"}]
