"""Bytes of artifacts: in whole and in part, shown and saved, by link and as an archive."""

import io
import zipfile
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from services.artifacts.domain.links import LinkSigner
from tests.integration.artifacts.test_uploads import png
from tests.integration.artifacts.world import SIGNING_KEY, World, person
from tests.support.waiting import WITHIN

POLYGLOT = b"GIF89a\x10\x00\x10\x00/*<html><script>alert(1)</script>*/"


def path(artifact: dict[str, Any], last: str) -> str:
    return f"/sessions/{artifact['session_id']}/artifacts/{artifact['artifact_id']}/{last}"


async def test_bytes_in_whole_and_in_part(world: World) -> None:
    artifact = await world.artifact(world.session(), "Grüße.txt", b"0123456789")

    whole = await world.call("GET", path(artifact, "download"))
    part = await world.call("GET", path(artifact, "download"), headers={"Range": "bytes=2-4"})
    last = await world.call("GET", path(artifact, "download"), headers={"Range": "bytes=-3"})
    beyond = await world.call("GET", path(artifact, "download"), headers={"Range": "bytes=10-"})
    known = await world.call("GET", path(artifact, "download"), headers={"If-None-Match": whole.headers["ETag"]})
    of_an_old_one = {"Range": "bytes=0-3", "If-Range": '"old"'}
    stale = await world.call("GET", path(artifact, "download"), headers=of_an_old_one)

    assert (whole.status_code, whole.content) == (200, b"0123456789")
    assert (whole.headers["Content-Type"], whole.headers["Content-Length"]) == ("text/plain", "10")
    assert whole.headers["Content-Disposition"].startswith('attachment; filename="Gr__e.txt"; filename*=UTF-8')
    assert whole.headers["ETag"] == f'"{artifact["sha256"]}"'
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert (last.status_code, last.content) == (206, b"789")
    assert (beyond.status_code, known.status_code, known.content) == (416, 304, b"")
    assert (stale.status_code, stale.content) == (200, b"0123456789")


async def test_only_what_no_browser_runs_is_shown_in_place(world: World) -> None:
    session = world.session()
    shown = [
        await world.artifact(session, "a.png", png(4, 4)),
        await world.artifact(session, "both.gif", POLYGLOT),
        await world.artifact(session, "a.txt", b"<script>alert(1)</script>"),
    ]
    saved = await world.artifact(session, "page.html", b"<svg onload='alert(1)'><script>alert(1)</script>")

    for artifact in (*shown, saved):
        response = await world.call("GET", path(artifact, "download"), params={"preview": "1"})
        how = response.headers["Content-Disposition"].split(";")[0]
        assert how == ("attachment" if artifact is saved else "inline")
        assert response.headers["Content-Type"] == artifact["content_type"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Content-Security-Policy"] == "sandbox"
    plain = await world.call("GET", path(shown[0], "download"))
    assert plain.headers["Content-Disposition"].startswith("attachment")


async def test_every_artifact_of_a_session_in_one_archive(each_store: World) -> None:
    session = each_store.session()
    contents = {"a.txt": b"one", "A.TXT": b"two", "b.txt": bytes(range(256)) * 3000}
    for name, content in contents.items():
        await each_store.artifact(session, name, content)
    await each_store.artifact(session, "a.txt", b"three")
    await each_store.artifact(each_store.session(), "other.txt", b"of another session")

    response = await each_store.call("GET", f"/sessions/{session}/artifacts/download-all")

    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/zip")
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    assert archive.testzip() is None
    found = {name: archive.read(name) for name in archive.namelist()}
    assert found == {"a.txt": b"one", "A (2).TXT": b"two", "b.txt": contents["b.txt"], "a (3).txt": b"three"}
    empty = await each_store.call("GET", f"/sessions/{each_store.session()}/artifacts/download-all")
    assert zipfile.ZipFile(io.BytesIO(empty.content)).namelist() == []


async def test_a_link_works_for_anybody_and_only_as_it_was_made(world: World) -> None:
    session = world.session()
    artifact = await world.artifact(session, "a.txt", b"text")
    other = await world.artifact(session, "b.txt", b"other")
    fresh = (await world.call("GET", path(artifact, "url"))).json()
    assert fresh["url"].startswith(f"http://gateway.test/api/v1/artifacts/{artifact['artifact_id']}/content/?")
    assert fresh["expires_at"] > artifact["created_at"]

    async def follow(artifact_id: str, query: str) -> httpx.Response:
        return await world.call("GET", f"/artifact-links/{artifact_id}?{query}", person("anybody", ""))

    query = urlsplit(fresh["url"]).query
    good = await follow(artifact["artifact_id"], query)
    assert (good.status_code, good.content) == (200, b"text")
    assert good.headers["Content-Disposition"].startswith("attachment")
    given = parse_qs(query)
    later = query.replace(given["expires"][0], str(int(given["expires"][0]) + 9))
    signature = f"signature={given['signature'][0]}"
    forged = [query[:-1] + ("0" if query[-1] != "0" else "1"), later, f"{query}&preview=1", query.split("&")[0], ""]
    forged += [signature, f"{query}&{signature}", f"{query}&expires={given['expires'][0]}"]
    for attempt in forged:
        refused = await follow(artifact["artifact_id"], attempt)
        assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error"), attempt
    assert (await follow(other["artifact_id"], query)).status_code == 401
    await world.delete_session(session)
    assert (await follow(artifact["artifact_id"], query)).status_code == 404


async def test_a_link_expires_and_stands_for_its_artifact_all_the_same(world: World) -> None:
    session = world.session()
    artifact = await world.artifact(session, "a.png", png(4, 4))
    query = LinkSigner(SIGNING_KEY).query(artifact["artifact_id"], 1_000_000_000)
    refused = await world.call("GET", f"/artifact-links/{artifact['artifact_id']}?{query}")
    assert refused.status_code == 401
    assert "expired" in refused.json()["error"]["message"]

    expired = f"http://gateway.test/api/v1/artifacts/{artifact['artifact_id']}/content/?{query}"
    resolve = f"/sessions/{session}/artifacts/resolve"
    found = await world.call("POST", resolve, json={"url": expired})
    assert found.json()["artifact_id"] == artifact["artifact_id"]
    elsewhere = await world.call("POST", f"/sessions/{world.session()}/artifacts/resolve", json={"url": expired})
    nonsense = await world.call("POST", resolve, json={"url": "http://gateway.test/artifacts/x/content/"})
    assert (elsewhere.status_code, nonsense.status_code) == (404, 404)


async def test_a_link_to_an_s3_server_is_presigned(s3_world: World) -> None:
    session = s3_world.session()
    artifact = await s3_world.artifact(session, "Grüße.html", b"<script>alert(1)</script>")
    other = await s3_world.artifact(session, "b.txt", b"other")

    async with httpx.AsyncClient(timeout=WITHIN) as anybody:
        answer = await anybody.get(artifact["url"])
        assert (answer.status_code, answer.content) == (200, b"<script>alert(1)</script>")
        assert answer.headers["Content-Disposition"].startswith("attachment")
        replayed = artifact["url"].replace(artifact["artifact_id"], other["artifact_id"])
        assert (await anybody.get(replayed)).status_code == 403
        of_other = artifact["url"].replace(await s3_world.original_of(artifact), await s3_world.original_of(other))
        assert (await anybody.get(of_other)).status_code == 403
        assert (await anybody.get(artifact["url"].replace("Expires=14400", "Expires=99999"))).status_code == 403
    found = await s3_world.call("POST", f"/sessions/{session}/artifacts/resolve", json={"url": artifact["url"]})
    assert found.json()["artifact_id"] == artifact["artifact_id"]


async def test_runtimes_of_others_find_no_artifact(world: World) -> None:
    session, own = world.session(person("alice")), world.session(person("alice"))
    artifact = await world.artifact(session, "a.csv", b"a,b\n1,2\n")

    for who in (person("bob"), person("alice", "company-2")):
        text = f"/sessions/{session}/artifacts/{artifact['artifact_id']}/text"
        assert (await world.call("GET", text, who)).status_code == 404
        for place, body in (("search", {"query": "a"}), ("resolve", {"url": artifact["url"]})):
            posted = await world.call("POST", f"/sessions/{session}/artifacts/{place}", who, json=body)
            assert posted.status_code == 404
    through = f"/sessions/{own}/artifacts/{artifact['artifact_id']}/text"
    assert (await world.call("GET", through)).status_code == 404, "of another session"
