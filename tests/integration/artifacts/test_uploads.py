"""Accepted and refused uploads into a session."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

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
