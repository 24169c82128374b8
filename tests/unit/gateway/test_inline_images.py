"""Images inside requests: stored as artifacts of the session, and named in its messages instead."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event
from libs.contracts.resources.messages import FileBlock, SaidFile
from libs.contracts.resources.sessions import AddMessages, CreateSession, SessionCreated, SessionUpdated
from libs.contracts.resources.turns import ExecuteTurn
from services.gateway.domain.accounts import ALL_SCOPES
from services.gateway.domain.inline_images import InlineImages
from services.gateway.entrypoints.door.image_bodies import MOST_WITH_IMAGES, LargeBodies
from tests.support.gateway import FakeUpstreams, Gateway, Sent
from tests.support.turn_events import completed, started
from tests.unit.gateway.test_chat_completions import CONFIGURATION, HELLO, picture
from tests.unit.gateway.test_protocols import AGENT

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
JPEG = b"\xff\xd8\xff" + bytes(64)
_UPLOAD = re.compile(r"/internal/sessions/([0-9a-f-]{36})/artifacts")


class Artifacts(dict[tuple[str, str, str], tuple[int, Any]]):
    """Answers of upstreams, with those of the artifacts service to uploads; ``refusal`` instead of a record."""

    def __init__(self, upstreams: FakeUpstreams) -> None:
        super().__init__(upstreams.answers)
        self._upstreams = upstreams
        self.refusal: tuple[int, Any] | None = None
        self.sessions: list[str] = []

    def get(self, asked: Any, default: Any = None) -> Any:
        method, upstream, path = asked
        if path.endswith("/messages"):
            return 200, {"messages": [], "total": 0, "has_more": False}
        if (method, upstream) != ("POST", "artifacts") or (found := _UPLOAD.fullmatch(path)) is None:
            return super().get(asked, default)
        if self.refusal is not None:
            return self.refusal
        self.sessions.append(found[1])
        headers, body = self._upstreams.uploaded[-1]
        name = re.search(rb'name="file"; filename="([^"]+)"', body)
        return 201, {
            # The same as for the same key before.
            "artifact_id": headers["Idempotency-Key"].removeprefix("image:")[:32],
            "session_id": found[1],
            "name": name[1].decode(),
            "content_type": "image/png",
            "size": len(body),
            "sha256": "0" * 64,
            "origin": "uploaded",
            "processing_strategy": "vision",
            "processing_status": "ready",
            "metadata": {},
            "url": "http://x",
            "url_expires_at": "2030-01-01T00:00:00Z",
            "created_at": "2030-01-01T00:00:00Z",
            "updated_at": "2030-01-01T00:00:00Z",
        }


def upstream(sent: Sent) -> Iterable[Event]:
    match sent.command:
        case CreateSession(session_id=session_id):
            return [SessionCreated(session_id=session_id, config_hash="0" * 64, agent_id=None, owner_id="u")]
        case AddMessages(session_id=session_id):
            return [SessionUpdated(session_id=session_id)]
    return [started(sent), completed(sent, "A cat.")]


@pytest.fixture
def artifacts(public: Gateway) -> Artifacts:
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, CONFIGURATION)
    public.upstreams.answers["GET", "registry", "/internal/agents/by-key/support"] = (200, AGENT)
    public.bus.upstream = upstream
    made = Artifacts(public.upstreams)
    public.upstreams.answers = made
    return made


@pytest.fixture
def client(artifacts: Artifacts, openai_client: AsyncOpenAI) -> AsyncOpenAI:
    return openai_client


def data_url(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def asking(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}]


async def refused(client: AsyncOpenAI, url: str) -> dict[str, Any]:
    with pytest.raises(openai.BadRequestError) as problem:
        await client.chat.completions.create(model="support", messages=asking(picture(url)))
    assert isinstance(problem.value.body, dict)
    return problem.value.body


async def test_a_completion_stores_each_image_of_its_conversation_once(
    public: Gateway, artifacts: Artifacts, client: AsyncOpenAI
) -> None:
    messages = [
        *asking(picture(data_url(PNG), detail="high"), picture(data_url(JPEG), detail="auto")),
        {"role": "assistant", "content": "A cat."},
        *asking(picture(data_url(PNG, "image/whatever"), detail="low"), picture("https://example.com/cat.png")),
    ]
    reply = await client.chat.completions.create(model="support", messages=messages)
    assert reply.choices[0].message.content == "A cat."
    created, added, executed = (sent.command for sent in public.bus.sent)
    assert isinstance(created, CreateSession)
    assert isinstance(added, AddMessages)
    assert isinstance(executed, ExecuteTurn)
    assert (created.messages, created.listed, created.expires_after) == ([], False, 86_400)
    assert {added.session_id, executed.session_id, *artifacts.sessions} == {created.session_id}
    _, first, second = added.messages[0].content
    assert isinstance(first, SaidFile)
    assert isinstance(second, SaidFile)
    assert (first.content_type, first.processing_strategy) == ("image/png", "vision")
    assert re.fullmatch(r"image-[0-9a-f]{12}\.png", first.name)
    assert re.fullmatch(r"image-[0-9a-f]{12}\.jpg", second.name)
    _, again, on_the_web = executed.content
    assert again == FileBlock(type="file", source=first.source, detail="low")
    assert (first.detail, second.detail) == ("high", None)
    assert on_the_web.model_dump() == picture("https://example.com/cat.png")  # type: ignore[union-attr]
    assert executed.begins is None
    assert executed.request.whole_history
    assert executed.request.client_calls is not None
    uploads = [body for headers, body in public.upstreams.uploaded]
    assert [PNG in uploads[0], JPEG in uploads[1]] == [True, True]
    assert len(uploads) == 2
    for sent in public.bus.sent:
        assert base64.b64encode(PNG) not in sent.command.encode()


async def test_repeats_find_what_was_stored(public: Gateway, artifacts: Artifacts, client: AsyncOpenAI) -> None:
    messages = asking(picture(data_url(PNG)))
    replies = [
        await client.chat.completions.create(
            model="support", messages=messages, extra_headers={"Idempotency-Key": "again"}
        )
        for _ in range(2)
    ]
    assert replies[0].id == replies[1].id
    assert [type(sent.command) for sent in public.bus.sent] == [CreateSession, ExecuteTurn]
    assert len(set(artifacts.sessions)) == 1
    assert len({headers["Idempotency-Key"] for headers, _ in public.upstreams.uploaded}) == 1
    with pytest.raises(openai.BadRequestError, match="already used with a different body"):
        await client.chat.completions.create(
            model="support", messages=asking(picture(data_url(JPEG))), extra_headers={"Idempotency-Key": "again"}
        )


async def test_what_is_no_image_is_refused_by_its_place(public: Gateway, client: AsyncOpenAI) -> None:
    cases: list[Any] = [
        (data_url(b"<svg/>", "image/svg+xml"), "this isn't a PNG, JPEG, GIF, WebP or BMP image"),
        (data_url(b"%PDF-1.7", "image/png"), "this isn't a PNG, JPEG, GIF, WebP or BMP image"),
        ("data:image/png;base64,AA*A", "the image isn't valid Base64"),
        ("data:image/png,AAAA", "a data: URL must contain `;base64,` before the data"),
        (f"data:image/png;sha256,{'0' * 64}", "a data: URL must contain `;base64,` before the data"),
    ]
    for url, reason in cases:
        body = await refused(client, url)
        assert body["param"] == "messages.0.content.1.image_url.url"
        assert reason in body["message"]
        assert public.bus.sent == []
        assert public.upstreams.uploaded == []


async def test_a_refused_upload_is_the_refusal_of_the_request(
    public: Gateway, artifacts: Artifacts, client: AsyncOpenAI
) -> None:
    artifacts.refusal = 422, {"error": {"type": "validation_error", "message": "'image.png' has too many pixels."}}
    body = await refused(client, data_url(PNG))
    assert (body["param"], body["code"]) == ("messages.0.content.1.image_url.url", "invalid_image")
    assert body["message"] == "'image.png' has too many pixels."
    artifacts.refusal = 403, {"error": {"type": "quota_exceeded", "message": "the company's limit is reached"}}
    with pytest.raises(openai.PermissionDeniedError) as full:
        await client.chat.completions.create(model="support", messages=asking(picture(data_url(PNG))))
    assert full.value.type == "insufficient_quota"
    assert not [sent for sent in public.bus.sent if isinstance(sent.command, ExecuteTurn)]


async def test_a_key_that_may_not_upload_may_not_send_images(public: Gateway, client: AsyncOpenAI) -> None:
    secret, _ = public.keys.issue(scopes=frozenset(ALL_SCOPES) - {"artifacts:write"})
    limited = client.with_options(api_key=secret)
    with pytest.raises(openai.PermissionDeniedError, match="requires the scope artifacts:write"):
        await limited.chat.completions.create(model="support", messages=asking(picture(data_url(PNG))))
    await limited.chat.completions.create(model="support", messages=HELLO)  # type: ignore[arg-type]


async def test_images_do_not_count_as_text_and_have_a_limit_of_their_own(
    artifacts: Artifacts, client: AsyncOpenAI
) -> None:
    create = client.chat.completions.create
    await create(model="support", messages=asking(picture(data_url(PNG + bytes(3_000_000)))))
    assert len(artifacts.sessions) == 1
    long: Any = [{"type": "text", "text": "x" * 1_100_000}, picture(data_url(PNG))]
    with pytest.raises(openai.APIStatusError, match="without its images is larger than 1 MiB") as text:
        await create(model="support", messages=asking(*long))
    with pytest.raises(openai.APIStatusError, match="The body is larger than 20 MiB") as image:
        await create(model="support", messages=asking(picture(data_url(PNG + bytes(MOST_WITH_IMAGES)))))
    assert text.value.status_code == image.value.status_code == 413
    many = [picture(data_url(PNG + bytes([number]))) for number in range(51)]
    with pytest.raises(openai.BadRequestError, match="at most 50 different images"):
        await create(model="support", messages=asking(*many))


async def test_a_large_body_gives_its_slot_back_once_its_images_are_stored(
    artifacts: Artifacts, public: Gateway, client: AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[InlineImages] = []
    enter = LargeBodies.enter

    async def entering(self: LargeBodies, images: InlineImages, company_id: str) -> None:
        await enter(self, images, company_id)
        held.append(images)

    monkeypatch.setattr(LargeBodies, "enter", entering)
    waiting: list[int] = []

    def told(sent: Sent) -> Iterable[Event]:
        if isinstance(sent.command, ExecuteTurn):
            waiting.append(len(held[-1].waiting))
        return upstream(sent)

    public.bus.upstream = told
    # More than there are slots.
    for number in range(8):
        content = PNG + bytes([number]) + bytes(1_500_000)
        await client.chat.completions.create(model="support", messages=asking(picture(data_url(content))))
    assert waiting == [0] * 8


async def test_responses_and_conversations_take_images(
    public: Gateway, artifacts: Artifacts, client: AsyncOpenAI
) -> None:
    part = {"type": "input_image", "image_url": data_url(PNG), "detail": "low"}
    said: Any = [{"role": "user", "content": [{"type": "input_text", "text": "And?"}, part]}]
    await client.responses.create(model="support", input=said)
    created, executed = (sent.command for sent in public.bus.sent)
    assert isinstance(created, CreateSession)
    assert isinstance(executed, ExecuteTurn)
    assert isinstance(executed.content[1], FileBlock)
    assert executed.content[1].detail == "low"
    await client.conversations.items.create(f"conv_{new_id()}", items=said)
    added = public.bus.sent[-1].command
    assert isinstance(added, AddMessages)
    assert isinstance(added.messages[0].content[1], SaidFile)
    assert added.messages[0].content[1].detail == "low"
    assert len(artifacts.sessions) == 2


async def _post(public: Gateway, path: str, body: Any) -> httpx.Response:
    async with public.protocol(path) as client:
        return await client.post(path, json=body, headers={"A2A-Version": "1.0"})


async def test_a2a_takes_raw_images(public: Gateway, artifacts: Artifacts) -> None:
    parts = [{"text": "What is it?"}, {"raw": base64.b64encode(PNG).decode(), "mediaType": "image/png"}]
    message = {"messageId": new_id(), "role": "ROLE_USER", "parts": parts}
    answer = await _post(public, "/a2a/support/message:send", {"message": message})
    assert answer.status_code == 200, answer.text
    executed = public.bus.sent[-1].command
    assert isinstance(executed, ExecuteTurn)
    assert isinstance(executed.content[1], FileBlock)
    assert len(artifacts.sessions) == 1
    parts[1]["raw"] = base64.b64encode(b"%PDF-1.7").decode()
    answer = await _post(public, "/a2a/support/message:send", {"message": {**message, "messageId": new_id()}})
    assert answer.status_code == 400
    assert "message.parts.1.raw: this isn't a PNG" in answer.text


async def test_ag_ui_takes_images_in_messages(public: Gateway, artifacts: Artifacts) -> None:
    source = {"type": "data", "value": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    content = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]
    run = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": content}]}
    answer = await _post(public, "/ag-ui/support", {**run, "state": {}, "tools": [], "context": []})
    assert answer.status_code == 200, answer.text
    [executed] = [sent.command for sent in public.bus.sent if isinstance(sent.command, ExecuteTurn)]
    assert isinstance(executed.content[1], FileBlock)
    assert len(artifacts.sessions) == 1


async def test_rest_takes_references_only(public: Gateway, artifacts: Artifacts) -> None:
    """The specification: upload, then refer to it by its id. The runtime refuses the URL."""
    body = {"content": [picture(data_url(PNG))]}
    await public.client.post(f"/runtime/{new_id()}/execute/", json=body, headers={"Prefer": "wait=0"})
    assert artifacts.sessions == []
    executed = public.bus.sent[-1].command
    assert isinstance(executed, ExecuteTurn)
    assert executed.content[0].model_dump() == picture(data_url(PNG))  # type: ignore[union-attr]
