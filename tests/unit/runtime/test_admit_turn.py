"""Content with files: looked up before the turn is accepted, so that nothing is stored of what is refused."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from libs.contracts.errors import ErrorKind, ServiceError, ValidationFailed
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources.turns import ExecuteTurn
from libs.eventing import AlreadyProcessed
from libs.outbound import GuardedResolver
from services.runtime.domain.admission import (
    AdmissionPolicy,
    AdmissionView,
    Admitted,
    Backlog,
    Decision,
    SessionState,
    WorkerSlots,
)
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.beginnings import NewSession
from services.runtime.domain.conversation import ArtifactPart, ImagePart, TextPart
from services.runtime.domain.conversation_json import part_from_json
from services.runtime.domain.models import VisionNotSupported
from services.runtime.domain.turns import ClaimedTurn, Submission
from services.runtime.use_cases.admit_turn import AdmitTurn
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.runtime_nodes import ObedientModel

SESSION = new_id()
CALLER = Identity(company_id="company", user_id="user", key_id="key", scopes=frozenset())


class MemoryAdmissions:
    """TurnAdmissions of one idle session, whose agent has this model; a batch of its own."""

    def __init__(self, model: str) -> None:
        self._model = model
        self.admitted: list[Submission] = []
        self.begun: Sequence[NewSession] = ()

    @property
    def view(self) -> AdmissionView:
        session = SessionState(SESSION, "company", "user", True, 0, AgentSpec("llm_agent", model=self._model))
        known = frozenset(submission.turn_id for submission in self.admitted)
        return AdmissionView({SESSION: session}, known, {}, {})

    @asynccontextmanager
    async def open(self, _submissions: Sequence[Submission], /) -> AsyncIterator[MemoryAdmissions]:
        yield self

    async def write(self, decisions: Sequence[Decision]) -> list[ClaimedTurn]:
        self.admitted += [decision.submission for decision in decisions if isinstance(decision, Admitted)]
        return []


class BusyEngine:
    def slots(self) -> WorkerSlots:
        return WorkerSlots(0)


class Accepting:
    def __init__(self, artifacts: FakeArtifacts | None, *, model: str = "test:model") -> None:
        self.admissions = MemoryAdmissions(model)
        policy = AdmissionPolicy(Backlog(), ObedientModel())
        addresses = GuardedResolver(resolve=_resolve)
        self._admit = AdmitTurn(self.admissions, policy, BusyEngine(), artifacts, addresses)  # type: ignore[arg-type]

    async def accept(self, *blocks: dict[str, Any], turn_id: str | None = None) -> ServiceError | None:
        turn_id = turn_id or new_id()
        command = ExecuteTurn.model_validate({"session_id": SESSION, "content": list(blocks)})
        message = MessageContext("company", "label", turn_id)
        return await self._admit(command, CommandContext(turn_id, CALLER, message, "2026-01-01T00:00:00Z"))

    async def refusal(self, *blocks: dict[str, Any]) -> Any:
        error = await self.accept(*blocks)
        assert error is not None
        assert self.admissions.admitted == []
        return error


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def file(artifact_id: str, **detail: str) -> dict[str, Any]:
    return {"type": "file", "source": {"artifact_id": artifact_id}, **detail}


def web_image(url: str, **detail: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **detail}}


async def _resolve(host: str, _port: int) -> list[str]:
    known = {"example.com": ["93.184.216.34"], "inside.example": ["93.184.216.34", "10.0.0.7"]}
    if host not in known:
        raise socket.gaierror("the name is not known")
    return known[host]


def image(url: str, **detail: str) -> dict[str, Any]:
    return {"type": "image", "url": url, **detail}


@pytest.fixture
def artifacts() -> FakeArtifacts:
    return FakeArtifacts(owner="user")


async def test_files_and_images_are_kept_with_their_facts(artifacts: FakeArtifacts) -> None:
    report = artifacts.put("report.txt", "text", session_id=SESSION, status="pending")
    picture = artifacts.put("photo.png", b"png", session_id=SESSION)
    accepting = Accepting(artifacts)

    await accepting.accept(
        text("Look."),
        file(report.artifact_id),
        file(picture.artifact_id, detail="low"),
        image(artifacts.url(picture), detail="high"),
        web_image("https://example.com/a.png", detail="original"),
    )

    [submission] = accepting.admissions.admitted
    shown = ArtifactPart(picture.artifact_id, "photo.png", "image/png", "vision", detail="low")
    named = ArtifactPart(picture.artifact_id, "photo.png", "image/png", "vision", artifacts.url(picture), "high")
    kept = ArtifactPart(report.artifact_id, "report.txt", "text/plain", "rag_indexing")
    on_the_web = ImagePart("https://example.com/a.png", "original")
    assert submission.question.parts == (TextPart("Look."), kept, shown, named, on_the_web)
    assert submission.question.has_image
    blocks = submission.blocks or []
    assert [block["type"] for block in blocks] == ["text", "file", "file", "image", "image_url"]
    assert blocks[1]["source"] == {"artifact_id": report.artifact_id}
    assert tuple(part_from_json(block) for block in blocks) == submission.question.parts


async def test_artifacts_of_other_sessions_or_users_are_not_found(artifacts: FakeArtifacts) -> None:
    elsewhere = artifacts.put("a.txt", "text", session_id=new_id())
    foreign = FakeArtifacts(owner="somebody else")
    theirs = foreign.put("b.txt", "text", session_id=SESSION)
    for held, block in (
        (artifacts, file(elsewhere.artifact_id)),
        (artifacts, image(artifacts.url(elsewhere))),
        (artifacts, image("https://files.example/nothing")),
        (artifacts, file(new_id())),
        (artifacts, file("../x")),
        (foreign, file(theirs.artifact_id)),
        (foreign, image(foreign.url(theirs))),
    ):
        assert (await Accepting(held).refusal(text("Look."), block)).kind is ErrorKind.NOT_FOUND


async def test_an_image_needs_a_model_that_sees(artifacts: FakeArtifacts) -> None:
    picture = artifacts.put("photo.png", b"png", session_id=SESSION)
    for block in (file(picture.artifact_id), image(artifacts.url(picture))):
        assert isinstance(await Accepting(artifacts, model="blind:model").refusal(block), VisionNotSupported)
    document = artifacts.put("a.txt", "text", session_id=SESSION)
    assert await Accepting(artifacts, model="blind:model").accept(file(document.artifact_id)) is None


async def test_an_image_block_names_an_image(artifacts: FakeArtifacts) -> None:
    document = artifacts.put("a.txt", "text", session_id=SESSION)
    error = await Accepting(artifacts).refusal(text("Look."), image(artifacts.url(document)))
    assert isinstance(error, ValidationFailed)
    assert [(detail.loc, detail.type) for detail in error.details or []] == [(["content", 1], "image_wrong_kind")]


async def test_data_urls_are_refused(artifacts: FakeArtifacts) -> None:
    for block in (image("data:image/png;base64,AAAA"), web_image("DATA:image/png,x")):
        with pytest.raises(ValidationFailed) as caught:
            await Accepting(artifacts).accept(text("Look."), block)
        assert caught.value.details[0].loc == ["content", 1]


async def test_images_are_taken_from_the_public_internet_alone_whichever_provider_would_fetch_them(
    artifacts: FakeArtifacts,
) -> None:
    refused = {
        "http://127.0.0.1:8080/": "google:gemini-2.5-flash",
        "https://[::1]/a.png": "openai:gpt-4o",
        "http://169.254.169.254/latest/meta-data/": "anthropic:claude-sonnet-4-5",
        "http://inside.example/a.png": "google:gemini-2.5-flash",
        "http://user:password@example.com/a.png": "blind:model",
    }
    for url, model in refused.items():
        good = web_image("https://example.com/a.png")
        error = await Accepting(artifacts, model=model).refusal(text("Look."), good, web_image(url))
        assert isinstance(error, ValidationFailed)
        details = [(each.loc, each.type) for each in error.details or []]
        assert details == [(["content", 2], "image_url_address_refused")]
    for url in ("https://example.com/a.png", "https://nowhere.example/a.png", "http://8.8.8.8/a.png"):
        assert await Accepting(artifacts).accept(web_image(url)) is None


async def test_without_artifacts_files_are_refused_and_text_asks_nobody(artifacts: FakeArtifacts) -> None:
    error = await Accepting(None).refusal(file(new_id()))
    assert (error.kind, error.message) == (ErrorKind.VALIDATION, "Artifacts aren't available in this installation.")
    artifacts.down = True
    assert (await Accepting(artifacts).refusal(file(new_id()))).kind is ErrorKind.UNAVAILABLE
    assert await Accepting(artifacts).accept(text("Hello.")) is None


async def test_a_repeat_is_a_duplicate_even_without_the_artifacts_service(artifacts: FakeArtifacts) -> None:
    document = artifacts.put("a.txt", "text", session_id=SESSION)
    accepting, turn_id = Accepting(artifacts), new_id()
    assert await accepting.accept(file(document.artifact_id), turn_id=turn_id) is None
    artifacts.down = True
    with pytest.raises(AlreadyProcessed):
        await accepting.accept(file(document.artifact_id), turn_id=turn_id)
    assert len(accepting.admissions.admitted) == 1
