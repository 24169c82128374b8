"""Files, collections, knowledge bases and artifacts: requests to the upstream, and its answers."""

from typing import Any

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.resources.artifacts import (
    ArtifactCopied,
    ArtifactRemoved,
    CopyArtifactToPlatform,
    RemoveArtifactFromPlatform,
)
from libs.contracts.resources.files import BulkReply, ChangeFiles, FileResult, FilesChanged
from libs.contracts.resources.knowledge_bases import CreateKnowledgeBase
from tests.support.gateway import Gateway, error_of, rejected


async def test_results_of_single_files_name_an_error_only_where_there_is_one(public: Gateway) -> None:
    good, bad = new_id(), new_id()
    problem = ErrorInfo(type=ErrorKind.NOT_FOUND, message="There is no file with this ID.")
    reply = BulkReply(
        success=True,
        processed=1,
        failed=1,
        results=[
            FileResult(file_id=good, status="success"),
            FileResult(file_id=bad, status="failed", error=problem),
        ],
    )
    public.bus.upstream = lambda _: [FilesChanged(operation="update_tags", reply=reply)]

    answer = await public.client.post(
        "/files/bulk/", json={"operation": "update_tags", "file_ids": [good, bad], "parameters": {"tags": ["x"]}}
    )

    assert public.bus.sent[0].command == ChangeFiles(operation="update_tags", file_ids=[good, bad], tags=["x"])
    assert answer.json() == {
        "success": True,
        "processed": 1,
        "failed": 1,
        "results": [
            {"file_id": good, "status": "success"},
            {
                "file_id": bad,
                "status": "failed",
                "error": {"type": "not_found_error", "message": "There is no file with this ID."},
            },
        ],
    }


async def test_bulk_bodies_that_are_refused(public: Gateway) -> None:
    cases: list[Any] = [
        {"operation": "destroy", "file_ids": ["x"]},
        {"operation": "delete", "file_ids": []},
        {"operation": "delete", "file_ids": ["x"] * 1001},
        {"operation": "delete", "file_ids": ["x"], "parameters": {"tags": []}},
        {"operation": "update_tags", "file_ids": ["x"]},
        {"operation": "update_tags", "file_ids": ["x"], "parameters": {"status": "active"}},
        {"operation": "change_status", "file_ids": ["x"], "parameters": {"status": "gone"}},
        {"operation": "delete", "file_ids": ["x"], "force": True},
    ]
    for body in cases:
        answer = await public.client.post("/files/bulk/", json=body)

        assert answer.status_code == 422
        assert error_of(answer)["type"] == "validation_error"
        assert public.bus.sent == []


async def test_only_what_was_given_of_a_knowledge_base_is_handed_over(public: Gateway) -> None:
    public.bus.upstream = lambda _: []

    refused = await public.client.post("/knowledge-bases/", json={"name": "x", "chunking": {}})
    assert refused.status_code == 422
    assert error_of(refused)["details"][0]["loc"] == ["chunking"]
    bad = {"name": "x", "chunking_strategy": {"chunk_size": 10, "chunk_overlap": 10}}
    assert (await public.client.post("/knowledge-bases/", json=bad)).status_code == 422
    assert not [sent for sent in public.bus.sent if isinstance(sent.command, CreateKnowledgeBase)]


async def test_a_part_of_a_files_text_is_asked_of_the_owner(public: Gateway) -> None:
    file, reply = new_id(), {"file_id": "f", "text": "x", "offset": 0, "characters": 1}
    public.upstreams.answers["GET", "ingestion", f"/internal/files/{file}/text"] = (200, reply)

    assert (await public.client.get(f"/files/{file}/text/")).json() == reply
    await public.client.get(f"/files/{file}/text/", params={"offset": 5, "limit": 7})

    assert [asked[3] for asked in public.upstreams.asked] == [
        {"offset": 0, "limit": 100_000},
        {"offset": 5, "limit": 7},
    ]
    refused = await public.client.get(f"/files/{file}/text/", params={"limit": 0})
    assert refused.status_code == 422
    assert error_of(refused)["details"][0]["loc"] == ["query", "limit"]


async def test_an_installation_without_the_service_says_so_at_once(public: Gateway) -> None:
    public.upstreams.missing.add("ingestion")

    answer = await public.client.post("/collections/", json={"name": "x"})

    assert answer.status_code == 503
    assert "doesn't include the ingestion service" in error_of(answer)["message"]
    assert public.bus.sent == []


async def test_an_upload_is_passed_on_as_it_is(public: Gateway) -> None:
    public.upstreams.answers["POST", "ingestion", "/internal/files"] = (201, {"id": "f"})

    up = await public.client.post("/files/", files={"file": ("a.txt", b"content")}, headers={"Idempotency-Key": "k"})

    assert (up.status_code, up.json()) == (201, {"id": "f"})
    [(headers, body)] = public.upstreams.uploaded
    assert headers["Idempotency-Key"] == "k"
    assert headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert b"content" in body
    assert (
        await public.client.post("/files/", files={"file": b"x"}, headers={"Idempotency-Key": ""})
    ).status_code == 400


SESSION, ARTIFACT, FILE = new_id(), new_id(), new_id()
PLACE = f"/sessions/{SESSION}/artifacts/{ARTIFACT}"
IDS = {"artifact_id": ARTIFACT, "session_id": SESSION}


async def test_a_copy_and_its_removal_are_commands(public: Gateway) -> None:
    for last, command, event in (
        ("copy-to-platform/", CopyArtifactToPlatform, ArtifactCopied),
        ("remove-from-platform/", RemoveArtifactFromPlatform, ArtifactRemoved),
    ):
        public.bus.upstream = lambda _, event=event: [event(**IDS, file_id=FILE)]
        answer = await public.client.post(f"{PLACE}/{last}")
        assert (answer.status_code, answer.json()) == (200, {"success": True, "file_id": FILE})
        assert public.bus.sent[-1].command == command(**IDS)

    public.bus.upstream = lambda _: [rejected(ErrorKind.CONFLICT, "it was uploaded")]
    refused = await public.client.post(f"{PLACE}/copy-to-platform/")
    assert (refused.status_code, error_of(refused)["message"]) == (409, "it was uploaded")


async def test_a_link_needs_no_credential_and_its_owner_judges_it(public: Gateway) -> None:
    path = f"/internal/artifact-links/{ARTIFACT}?expires=1&signature=%C3%A9&expires=2&x="
    said = {"error": {"type": "authentication_error", "message": "The link has expired."}}
    public.upstreams.answers["GET", "artifacts", path] = (401, said)
    del public.client.headers["x-api-key"]

    reply = await public.client.get(f"/artifacts/{ARTIFACT}/content/?expires=1&signature=%C3%A9&expires=2&x")

    assert (reply.status_code, error_of(reply)["message"]) == (401, "The link has expired.")
    assert public.upstreams.asked_as[-1].scopes == frozenset()
    assert public.upstreams.asked_as[-1].company_id == ""


async def test_a_token_that_the_owner_does_not_take_is_no_fault_of_the_callers(public: Gateway) -> None:
    said = {"error": {"type": "authentication_error", "message": "not for you"}}
    public.upstreams.answers["GET", "artifacts", f"/internal{PLACE}/download?preview="] = (401, said)
    assert (await public.client.get(f"{PLACE}/download/")).status_code == 503


async def test_rows_of_a_preview_are_checked_like_every_other_number(public: Gateway) -> None:
    for rows in ["0", "101", "x", "-1", ""]:
        answer = await public.client.get(f"/sessions/{new_id()}/artifacts/{new_id()}/preview/?rows={rows}")
        [detail] = error_of(answer)["details"]
        assert (answer.status_code, detail["loc"], detail["hint"]) == (422, ["query", "rows"], "rows=20")
        assert detail["message"] == "must be a whole number from 1 to 100"
