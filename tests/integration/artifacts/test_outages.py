"""An object store, or another service, that is away: clear answers, no record without bytes, recovery by itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.ports import choose_free
from tests.integration.artifacts.conftest import _used, s3_url
from tests.integration.artifacts.world import World, artifact_world
from tests.support.s3_server import S3Server
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
async def proxy(s3_server: S3Server) -> AsyncIterator[TcpProxy]:
    """In front of the S3 server."""
    async with TcpProxy(port=choose_free(), target_port=s3_server.port) as made:
        yield made


@pytest.fixture
async def behind_proxy(
    proxy: TcpProxy,
    s3_server: S3Server,
    databases: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[World]:
    async with artifact_world(databases, s3_url(s3_server, proxy.port), tmp_path, _used(monkeypatch)) as made:
        yield made


@pytest.mark.outage("the object store")
async def test_an_s3_server_that_goes_away_and_comes_back(behind_proxy: World, proxy: TcpProxy) -> None:
    world, session = behind_proxy, behind_proxy.session()
    before = await world.artifact(session, "before.csv", b"a,b\n1,2\n")
    place = f"/sessions/{session}/artifacts"
    await proxy.cut()

    up = await world.upload(session, "during.txt", b"text")
    down = await world.call("GET", f"{place}/{before['artifact_id']}/download")
    archive = await world.call("GET", f"{place}/download-all")

    for response in (up, down, archive):
        assert (response.status_code, response.json()["error"]["type"]) == (503, "service_unavailable")
        assert "Retry-After" in response.headers
    assert await world.maintain("tables.read") == 1
    listed = (await world.call("GET", place)).json()["artifacts"]
    assert [each["name"] for each in listed] == ["before.csv"], "no record without bytes"
    assert listed[0]["processing_status"] == "pending"

    await proxy.restore()
    await world.rows("artifacts", "UPDATE artifacts SET lease_until = NULL")
    await world.artifact(session, "after.txt", b"text")
    assert (await world.call("GET", f"{place}/{before['artifact_id']}/download")).content == b"a,b\n1,2\n"
    await world.settle()
    listed = (await world.call("GET", place)).json()["artifacts"]
    assert {each["name"]: each["processing_status"] for each in listed} == {
        "after.txt": "ready",
        "before.csv": "ready",
    }


async def test_a_directory_that_goes_away_and_comes_back(world: World, tmp_path: Path) -> None:
    session, ending = world.session(), world.session()
    before = await world.artifact(session, "before.csv", b"a,b\n1,2\n")
    await world.artifact(ending, "ending.csv", b"a,b\n3,4\n")
    place = f"/sessions/{session}/artifacts"
    (tmp_path / "objects").rename(tmp_path / "away")

    up = await world.upload(session, "a.txt", b"text")
    down = await world.call("GET", f"{place}/{before['artifact_id']}/download")
    archive = await world.call("GET", f"{place}/download-all")
    await world.delete_session(ending)
    await world.maintain("blobs.collect")

    assert [response.status_code for response in (up, down, archive)] == [503, 503, 503]
    (tmp_path / "away").rename(tmp_path / "objects")
    artifact = await world.artifact(session, "a.txt", b"text")
    listed = await world.call("GET", place)
    expected = [artifact, before]
    assert [each["artifact_id"] for each in listed.json()["artifacts"]] == [each["artifact_id"] for each in expected]
    await world.maintain("blobs.collect")
    kept = sorted([await world.original_of(each) for each in expected])
    assert sorted(await world.stored()) == kept, "what was deleted meanwhile is gone now"


async def test_an_archive_of_a_session_that_is_just_deleted_is_an_outage(world: World) -> None:
    session = world.session()
    artifact = await world.artifact(session, "a.txt", b"text")
    await world.lose_bytes(artifact)
    assert (await world.call("GET", f"/sessions/{session}/artifacts/download-all")).status_code == 503


async def test_a_session_is_asked_for_once(world: World) -> None:
    session = world.session()
    await world.artifact(session, "a.txt", b"text")
    world.runtime.sessions.clear()
    await world.artifact(session, "b.txt", b"text")
    assert world.runtime.asked == 1
