"""Artifacts come in and go: what is recorded, told and refused, and what is left after a deletion."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

from libs.contracts.resources.artifacts import ArtifactUploaded
from tests.integration.artifacts.world import MAX_BYTES, World

LARGE = bytes(range(256)) * 7_000


def png(width: int, height: int, rest: bytes = b"\0" * 50) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + rest


async def bytes_of(world: World, artifact: dict[str, Any]) -> bytes:
    path = f"/sessions/{artifact['session_id']}/artifacts/{artifact['artifact_id']}/download"
    return (await world.call("GET", path)).content


async def test_what_comes_in_is_recorded_and_told(each_store: World) -> None:
    session = each_store.session()
    content = b"%PDF-1.7\n" + LARGE

    artifact = await each_store.artifact(session, "guide.pdf", content)

    assert artifact["sha256"] == hashlib.sha256(content).hexdigest()
    assert (artifact["session_id"], artifact["name"], artifact["size"]) == (session, "guide.pdf", len(content))
    assert (artifact["content_type"], artifact["origin"]) == ("application/pdf", "uploaded")
    assert (artifact["processing_strategy"], artifact["processing_status"]) == ("rag_indexing", "pending")
    assert await bytes_of(each_store, artifact) == content
    assert await each_store.told() == ["artifact.uploaded"]
    listed = await each_store.call("GET", f"/sessions/{session}/artifacts")
    assert [each["artifact_id"] for each in listed.json()["artifacts"]] == [artifact["artifact_id"]]
    assert (listed.json()["total"], listed.json()["has_more"]) == (1, False)


async def test_an_image_is_ready_at_once(world: World) -> None:
    artifact = await world.artifact(world.session(), "a.png", png(640, 480))

    assert (artifact["processing_strategy"], artifact["processing_status"]) == ("vision", "ready")
    assert artifact["metadata"] == {"width": 640, "height": 480}
    assert await world.told() == ["artifact.uploaded", "artifact.ready"]


NAMES = {
    "../../x.txt": "x.txt",
    "C:\\temp\\report.csv": "report.csv",
    "con.pdf": "_con.pdf",
    "a" * 296 + ".txt": "a" * 236 + ".txt",
    "invoice\u202efdp.txt": "invoicefdp.txt",
    ".txt": "file.txt",
    "na\u200bme<1>.txt ": "name_1_.txt",
}
REFUSED = [
    ("", b"text", 422),
    ("...", b"text", 422),
    ("noextension", b"text", 415),
    ("drawing.svg", b"<svg onload='alert(1)'/>", 415),
    ("program.exe", b"MZ", 415),
    ("picture.png", b"<html><script>alert(1)</script>", 415),
    ("picture.png", b"\x89PNG\r\n\x1a\n", 415),
    ("page.html", png(1, 1), 415),
    ("guide.pdf", b"GIF89a" + b"\0" * 20, 415),
    ("sheet.xlsx", b"a,b\n1,2\n", 415),
    ("empty.txt", b"", 422),
    ("bomb.png", png(60_000, 60_000), 422),
    ("large.txt", b"x" * (MAX_BYTES + 1), 413),
]


async def test_names_are_kept_as_far_as_they_are_safe(world: World) -> None:
    path = f"/sessions/{world.session()}/generated-artifacts"
    for given, kept in NAMES.items():
        content = b"%PDF-1.7" if given.endswith("pdf") else b"text"
        response = await world.call("POST", path, params={"name": given}, content=content)
        assert (response.status_code, response.json()["name"]) == (201, kept)


async def test_what_is_not_taken_leaves_nothing(world: World) -> None:
    session = world.session()
    for name, content, status in REFUSED:
        response = await world.upload(session, name, content)
        assert response.status_code == status, (name, response.text)

    assert await world.told() == []
    assert await world.stored() == []
    assert (await world.call("GET", f"/sessions/{session}/artifacts")).json()["total"] == 0


async def test_a_body_without_a_file_or_with_two(world: World) -> None:
    session = world.session()
    path = f"/sessions/{session}/artifacts"
    none = await world.call("POST", path, files={"other": ("a.txt", b"x")})
    two = await world.call("POST", path, files=[("file", ("a.txt", b"x")), ("file", ("b.txt", b"x"))])
    json = await world.call("POST", path, json={})

    assert (none.status_code, two.status_code, json.status_code) == (422, 422, 415)
    assert await world.stored() == []


async def test_what_an_agent_makes_is_generated_and_made_once(world: World) -> None:
    session = world.session()
    first = await world.generated(session, "report.md", b"# Report", key="call-1")
    again = await world.generated(session, "report.md", b"# Report", key="call-1")

    assert (first["origin"], again["artifact_id"]) == ("generated", first["artifact_id"])
    assert await bytes_of(world, first) == b"# Report"


async def test_an_upload_whose_session_ends_meanwhile_finds_no_place(world: World) -> None:
    session = world.session()

    async def slow() -> AsyncIterator[bytes]:
        yield b"text"
        await world.delete_session(session)

    path = f"/sessions/{session}/generated-artifacts"
    response = await world.call("POST", path, params={"name": "a.txt"}, content=slow())

    assert response.status_code == 404
    assert await world.stored() == []
    assert (await world.upload(session, "b.txt", b"x")).status_code == 404, "the tombstone is known for ever"


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
