"""Artifacts: requests to the upstream, and its answers."""

from libs.contracts.errors import ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.resources.artifacts import (
    ArtifactCopied,
    ArtifactRemoved,
    CopyArtifactToPlatform,
    RemoveArtifactFromPlatform,
)
from tests.support.gateway import Gateway, error_of, rejected

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
