"""Files, knowledge bases, artifacts, the timeline and webhooks, with the blocking and the asynchronous client."""

import datetime
import io
import json
from pathlib import Path
from typing import Any

import aes_client
import httpx
import pytest
from aes_client import verify_webhook
from standardwebhooks import Webhook

from tests.support.client_service import AT_ONCE, FakeService, error, event, events

TIME = "2026-03-01T09:30:00.000000Z"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def file(file_id: str = "f", **fields: Any) -> dict[str, Any]:
    known = {"name": "a.md", "content_type": "text/markdown", "size": 1, "sha256": "", "status": "active"}
    return {"id": file_id, **known, "tags": [], "collection_ids": [], "created_at": TIME, "updated_at": TIME, **fields}


def base(status: str, progress: int = 0) -> dict[str, Any]:
    lists = ("collection_ids", "file_ids", "datasources", "ingested_datasources", "failed_datasources")
    documents = ("datasource_errors", "datasource_snapshots", "chunking_strategy", "embedding_config", "llm_config")
    texts = ("description", "processing_engine", "dataset_name", "normalized_dataset_name")
    return {
        **{name: [] for name in lists},
        **{name: {} for name in (*documents, "processing_metadata")},
        **dict.fromkeys((*texts, "created_by_name", "company_name"), ""),
        **{"id": "k", "name": "Towers", "status": status, "progress": progress, "success_rate": 100.0},
        **{"datasource_count": 0, "total_datasources": 1, "created_at": TIME, "updated_at": TIME},
    }


def timeline_event(position: int) -> dict[str, Any]:
    names = ("id", "source", "subject", "correlation_id")
    fields = {"position": position, "type": "turn.completed", "sequence": 1, "time": TIME, "causation_id": None}
    return {**dict.fromkeys(names, "x"), **fields, "data": {"success": True}}


def test_lists_are_read_to_their_end(client: Any, service: FakeService) -> None:
    service.on(
        "GET",
        "/files/",
        {"files": [file(str(n)) for n in range(200)], "total": 201, "has_more": True},
        {"files": [file("200")], "total": 202, "has_more": True, "next": "cursor"},
        {"files": [file("201", kind="new")], "total": 202, "has_more": False, "next": None},
    )
    found = list(client.files.list(tag="fares"))
    assert [each.id for each in found] == [str(n) for n in range(202)]
    places = [(each.url.params.get("offset"), each.url.params.get("after")) for each in service.requests]
    assert places == [(None, None), ("200", None), (None, "cursor")]
    assert {each.url.params["tag"] for each in service.requests} == {"fares"}
    assert found[0].created_at == datetime.datetime(2026, 3, 1, 9, 30, tzinfo=datetime.UTC)
    assert found[-1].kind == "new", "what a newer service adds is there"


@pytest.mark.parametrize("kind", ["path", "bytes", "open"])
def test_an_upload_is_sent_whole_again(client: Any, service: FakeService, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "a.md"
    place.write_bytes(b"text of a")
    service.on("POST", "/files/", httpx.WriteError("reset"), error(503, "service_unavailable"), file())
    content: Any = {"path": place, "bytes": b"text of a", "open": io.BytesIO(b"text of a")}[kind]

    uploaded = client.files.upload(content, name=None if kind == "path" else "a.md")

    assert uploaded.id == "f"
    assert len(service.requests) == 3
    for request in service.requests:
        assert b'name="file"; filename="a.md"' in request.content
        assert b"text of a" in request.content
    assert len({each.headers["idempotency-key"] for each in service.requests}) == 1


def test_bytes_need_a_name(client: Any) -> None:
    with pytest.raises(ValueError, match="Pass a name"):
        client.files.upload(b"text")


def test_many_uploads_go_on_after_a_refusal(client: Any, service: FakeService, tmp_path: Path) -> None:
    names = ["a.md", "b.bin", "c.md"]
    for name in names:
        (tmp_path / name).write_text(name)

    def answer(request: httpx.Request) -> httpx.Response:
        body = request.content
        if b"b.bin" in body:
            return error(415, "unsupported_media_type")
        return httpx.Response(201, json=file(name="a.md" if b"a.md" in body else "c.md"))

    service.on("POST", "/files/", answer)
    seen = list(client.files.upload_many([tmp_path / name for name in names], at_once=2))
    assert [Path(each.path).name for each in seen] == names
    assert [each.file.name if each.file else each.error.type for each in seen] == [
        "a.md",
        "unsupported_media_type",
        "c.md",
    ]
    assert [(each.done, each.total) for each in seen] == [(1, 3), (2, 3), (3, 3)]


def test_a_file_that_cannot_be_read_stops_no_other(client: Any, service: FakeService, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    service.on("POST", "/files/", httpx.Response(201, json=file(name="a.md")))
    gone, kept = client.files.upload_many([tmp_path / "gone.md", tmp_path / "a.md"])
    assert (type(gone.error), gone.file) == (FileNotFoundError, None)
    assert (kept.error, kept.file.name) == (None, "a.md")


def test_a_report_of_usage_has_all_of_its_pages(client: Any, service: FakeService) -> None:
    sums = dict.fromkeys(("turns", "input_tokens", "output_tokens", "tool_calls", "seconds", "unpriced_turns"), 1)
    line = {**sums, "cost": "1"}
    moments = {"from": "2030-01-01T00:00:00.000000Z", "to": "2030-02-01T00:00:00.000000Z"}
    report = {**moments, "group_by": ["user"], "totals": line, "total": 3}
    service.on(
        "GET",
        "/usage/",
        {**report, "usage": [{**line, "user_id": "a"}, {**line, "user_id": "b"}], "has_more": True},
        {**report, "usage": [{**line, "user_id": "c"}], "has_more": False},
    )
    found = client.usage(group_by=["user"])
    assert ([each.user_id for each in found.usage], found.has_more) == (["a", "b", "c"], False)
    assert [each.url.params.get("offset") for each in service.requests] == [None, "2"]


def test_a_configuration_may_be_a_text_in_yaml(client: Any, service: FakeService) -> None:
    service.on("POST", "/agent/validate/", {"valid": True})
    assert client.agents.validate("name: Fare analyst").valid
    [asked] = service.requests
    assert (asked.headers["content-type"], asked.content) == ("application/yaml", b"name: Fare analyst")


def test_a_download_is_in_its_place_once_it_is_whole(client: Any, service: FakeService, tmp_path: Path) -> None:
    target = tmp_path / "a.md"
    broken = httpx.Response(200, stream=events(b"text", httpx.ReadError("reset")).stream)
    whole = httpx.Response(200, stream=events(b"text ", b"of a").stream)
    service.on("GET", "/files/f/download/", broken, error(503, "service_unavailable"), whole)
    assert client.files.save("f", target) == 9
    assert target.read_bytes() == b"text of a"
    with pytest.raises(aes_client.NotFoundError):
        client.files.save("unknown", target)
    assert [each.name for each in tmp_path.iterdir()] == ["a.md"]
    assert target.read_bytes() == b"text of a"


def test_an_ingestion_shows_how_far_it_is(client: Any, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aes_client.resources.knowledge_bases._SHORTEST_LOOK", 0.0)
    states = [base("pending"), base("running", 40), base("running", 40), base("completed", 100)]
    place = "/knowledge-bases/k/"
    service.on("GET", place, *states, *states, base("pending"))
    assert [each.progress for each in client.knowledge_bases.progress("k")] == [0, 40, 100]
    told: list[str] = []
    done = client.knowledge_bases.wait("k", on_progress=lambda seen: told.append(seen.status))
    assert (done.status, told) == ("completed", ["pending", "running", "completed"])
    with pytest.raises(aes_client.TimeLimitReached, match="The ingestion of Towers took longer than 0 s"):
        client.knowledge_bases.wait("k", timeout=0)


def test_the_timeline_is_read_and_followed(client: Any, service: FakeService) -> None:
    shown = [event(str(n), "turn.completed", **timeline_event(n)) for n in (3, 5)]
    service.on(
        "GET",
        "/events/",
        {"events": [], "has_more": True, "next": 2},
        {"events": [timeline_event(3)], "has_more": False, "next": 3},
        # A comment with an id says how far the timeline is.
        events(shown[0], b": keep-alive\nid: 4\n\n", httpx.ReadError("reset")),
        events(shown[1]),
    )
    assert [each.position for each in client.events.list(type="turn.*")] == [3]
    series = client.events.follow(after=2, type="turn.*")
    assert [next(series).position, next(series).position] == [3, 5]
    series.close()
    assert [each.url.params.get("after") for each in service.requests] == [None, "2", "2", "2"]
    assert service.requests[3].headers["last-event-id"] == "4"


def test_a_silent_timeline_is_followed_however_often_its_connection_is_lost(
    client: Any, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aes_client.streams.LASTING_SECONDS", 0.0)
    comment = b": keep-alive\nid: 2\n\n"
    cut_off = [events(comment, httpx.ReadError("reset")) for _ in range(AT_ONCE.retries + 2)]
    service.on("GET", "/events/", *cut_off, events(event("3", "turn.completed", **timeline_event(3))))
    series = client.events.follow(after=2)
    assert next(series).position == 3
    series.close()


def test_a_timeline_that_breaks_off_at_once_is_given_up(client: Any, service: FakeService) -> None:
    comment = b": keep-alive\nid: 2\n\n"
    service.on("GET", "/events/", events(comment, comment, httpx.ReadError("reset")))
    with pytest.raises(aes_client.ConnectionFailed):
        next(client.events.follow(after=2))
    assert len(service.requests) == AT_ONCE.retries + 1


def test_the_timeline_is_read_from_its_end(client: Any, service: FakeService) -> None:
    service.on(
        "GET",
        "/events/",
        {"events": [timeline_event(5)], "has_more": True, "next": 5},
        {"events": [timeline_event(3)], "has_more": False, "next": 3},
    )
    assert [each.position for each in client.events.list(newest_first=True)] == [5, 3]
    assert [each.url.params.get("before") for each in service.requests] == [None, "5"]


def test_what_has_no_operation_can_be_called(client: Any, service: FakeService) -> None:
    service.on("POST", "/moons/", error(503, "service_unavailable"), {"id": "m"})
    service.on("DELETE", "/moons/m/", httpx.Response(204))
    assert client.request("post", "/moons/", body={"name": "Io"}, query={"of": "Jupiter"}) == {"id": "m"}
    assert [each.url.params["of"] for each in service.requests] == ["Jupiter", "Jupiter"]
    assert len({each.headers["idempotency-key"] for each in service.requests}) == 1
    assert client.request("DELETE", "/moons/m/") is None


def test_toolsets_are_told_apart_by_their_type(client: Any, service: FakeService) -> None:
    known = {"name": "shop", "description": "", "tool_settings": {}, "version": 1, "tools": []}
    times = dict.fromkeys(("created_at", "updated_at", "refreshed_at"), TIME)
    mcp = {**known, **times, "type": "mcp", "url": "https://x", "headers": {}, "allowed_tools": None}
    service.on(
        "GET", "/toolsets/", {"toolsets": [mcp, {**known, **times, "type": "http"}], "total": 2, "has_more": False}
    )
    assert [type(each).__name__ for each in client.toolsets.list()] == ["McpToolset", "HttpToolset"]


def test_webhooks_are_verified_like_the_standard_says() -> None:
    body = json.dumps({"type": "turn.completed", "timestamp": TIME, "data": timeline_event(7)})
    sent = datetime.datetime.fromtimestamp(1_800_000_000, datetime.UTC)
    headers = {
        "Webhook-Id": "e1",
        "Webhook-Timestamp": "1800000000",
        "Webhook-Signature": "v1,bm9uZQ== " + Webhook(SECRET).sign("e1", sent, body),
    }
    received = verify_webhook(SECRET, headers, body.encode(), now=1_800_000_100)
    assert (received.type, received.data["position"]) == ("turn.completed", 7)
    for changed in (
        {"body": body.replace("7", "8").encode()},
        {"now": 1_800_000_400},
        {"headers": {**headers, "Webhook-Timestamp": "1800000001"}},
        {"headers": {}},
        {"secret": "whsec_b3RoZXI="},
        {"secret": "not a secret"},
    ):
        arguments: dict[str, Any] = {"secret": SECRET, "headers": headers, "body": body.encode(), "now": 1_800_000_100}
        with pytest.raises(aes_client.WebhookNotVerified):
            verify_webhook(**{**arguments, **changed})


def test_many_uploads_end_with_what_would_meet_every_file(client: Any, service: FakeService, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    service.on("POST", "/files/", error(403, "permission_error"))
    with pytest.raises(aes_client.PermissionDeniedError):
        list(client.files.upload_many([tmp_path / "a.md"] * 3))
