"""Content with files: looked up before the turn is taken in, so that nothing is stored of what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from libs.contracts.commands.runtime import ExecuteTurn
from libs.contracts.errors import ErrorKind, ValidationFailed
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.eventing import MessageContext
from services.runtime.domain.admission import (
    Admission,
    AdmissionPolicy,
    AdmissionView,
    Backlog,
    Decide,
    Refusal,
    SessionState,
)
from services.runtime.domain.agent_ports import AgentSpec
from services.runtime.domain.conversation import ArtifactPart, TextPart
from services.runtime.domain.conversation_json import part_from_json
from services.runtime.domain.model_errors import VisionNotSupported
from services.runtime.domain.ports import RunAhead
from services.runtime.domain.turns import IntakeResult, Refused, Submission, TakenIn
from services.runtime.use_cases.accept_turn import AcceptTurn
from tests.support.artifact_fakes import FakeArtifacts

SESSION = new_id()
CALLER = Identity(company_id="company", user_id="user", key_id="key", scopes=frozenset())


class MemoryIntake:
    """A TurnAdmissions of one idle session, whose agent is blind."""

    def __init__(self) -> None:
        self.admitted: list[Submission] = []

    async def take_in(
        self, submissions: Sequence[Submission], decide: Decide, run_ahead: RunAhead
    ) -> list[IntakeResult]:
        agent = AgentSpec("llm_agent", model="blind:model")
        session = SessionState(SESSION, "company", "user", True, 0, agent)
        known = frozenset(submission.turn_id for submission in self.admitted)
        decisions = decide(submissions, AdmissionView({SESSION: session}, known, {}, {}))
        self.admitted += [decision.submission for decision in decisions if isinstance(decision, Admission)]
        results: list[IntakeResult] = [Refused(d.error) if isinstance(d, Refusal) else TakenIn(None) for d in decisions]
        run_ahead(results)
        return results


class TakingIn:
    def __init__(self, artifacts: FakeArtifacts | None, *, sees: bool = True) -> None:
        def check_vision(model: str) -> None:
            if not sees:
                raise VisionNotSupported(f"{model} takes text only")

        self.intake = MemoryIntake()
        policy = AdmissionPolicy(Backlog(), lambda: 0, check_vision)
        self._take_in = AcceptTurn(self.intake, policy, None, artifacts)  # type: ignore[arg-type]

    async def take(self, *blocks: dict[str, Any], turn_id: str | None = None) -> IntakeResult:
        turn_id = turn_id or new_id()
        command = ExecuteTurn.model_validate({"session_id": SESSION, "content": list(blocks)})
        return await self._take_in.take_in(command, turn_id, CALLER, MessageContext("company", "label", turn_id))

    async def refusal(self, *blocks: dict[str, Any]) -> Any:
        result = await self.take(*blocks)
        assert isinstance(result, Refused)
        assert self.intake.admitted == []
        return result.error


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def file(artifact_id: str) -> dict[str, Any]:
    return {"type": "file", "source": {"artifact_id": artifact_id}}


def image(url: str) -> dict[str, Any]:
    return {"type": "image", "url": url}


@pytest.fixture
def artifacts() -> FakeArtifacts:
    return FakeArtifacts(owner="user")


async def test_files_and_images_are_kept_with_what_they_are(artifacts: FakeArtifacts) -> None:
    report = artifacts.put("report.txt", "text", session_id=SESSION, status="pending")
    picture = artifacts.put("photo.png", b"png", session_id=SESSION)
    taking = TakingIn(artifacts)

    await taking.take(text("Look."), file(report.id), file(picture.id), image(artifacts.url(picture)))

    [submission] = taking.intake.admitted
    shown = ArtifactPart(picture.id, "photo.png", "image/png", "vision")
    named = ArtifactPart(picture.id, "photo.png", "image/png", "vision", artifacts.url(picture))
    kept = ArtifactPart(report.id, "report.txt", "text/plain", "rag_indexing")
    assert submission.question.parts == (TextPart("Look."), kept, shown, named)
    assert submission.question.has_image
    blocks = submission.blocks or []
    assert [block["type"] for block in blocks] == ["text", "file", "file", "image"]
    assert blocks[1]["source"] == {"artifact_id": report.id}
    assert tuple(part_from_json(block) for block in blocks) == submission.question.parts


async def test_what_belongs_elsewhere_is_not_found(artifacts: FakeArtifacts) -> None:
    elsewhere = artifacts.put("a.txt", "text", session_id=new_id())
    foreign = FakeArtifacts(owner="somebody else")
    theirs = foreign.put("b.txt", "text", session_id=SESSION)
    for held, block in (
        (artifacts, file(elsewhere.id)),
        (artifacts, image(artifacts.url(elsewhere))),
        (artifacts, image("https://files.example/nothing")),
        (artifacts, file(new_id())),
        (artifacts, file("../x")),
        (foreign, file(theirs.id)),
        (foreign, image(foreign.url(theirs))),
    ):
        assert (await TakingIn(held).refusal(text("Look."), block)).kind is ErrorKind.NOT_FOUND


async def test_an_image_needs_a_model_that_sees(artifacts: FakeArtifacts) -> None:
    picture = artifacts.put("photo.png", b"png", session_id=SESSION)
    for block in (file(picture.id), image(artifacts.url(picture))):
        assert isinstance(await TakingIn(artifacts, sees=False).refusal(block), VisionNotSupported)
    document = artifacts.put("a.txt", "text", session_id=SESSION)
    assert isinstance(await TakingIn(artifacts, sees=False).take(file(document.id)), TakenIn)


async def test_an_image_block_names_an_image(artifacts: FakeArtifacts) -> None:
    document = artifacts.put("a.txt", "text", session_id=SESSION)
    error = await TakingIn(artifacts).refusal(text("Look."), image(artifacts.url(document)))
    assert isinstance(error, ValidationFailed)
    assert [(detail.loc, detail.type) for detail in error.details or []] == [(["content", 1], "image_wrong_kind")]


@pytest.mark.parametrize(
    "block", [image("data:image/png;base64,AAAA"), {"type": "image_url", "image_url": {"url": "DATA:image/png,x"}}]
)
async def test_data_urls_are_refused(artifacts: FakeArtifacts, block: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailed) as caught:
        await TakingIn(artifacts).take(text("Look."), block)
    assert caught.value.details[0].loc == ["content", 1]


async def test_an_installation_without_artifacts_says_so() -> None:
    error = await TakingIn(None).refusal(file(new_id()))
    assert (error.kind, error.message) == (
        ErrorKind.VALIDATION,
        "artifacts are not available in this installation",
    )


async def test_a_service_that_is_away_is_a_passing_refusal(artifacts: FakeArtifacts) -> None:
    artifacts.down = True
    assert (await TakingIn(artifacts).refusal(file(new_id()))).kind is ErrorKind.UNAVAILABLE


async def test_a_repeat_is_known_whatever_the_artifacts_service_says_now(artifacts: FakeArtifacts) -> None:
    document = artifacts.put("a.txt", "text", session_id=SESSION)
    taking, turn_id = TakingIn(artifacts), new_id()
    assert isinstance(await taking.take(file(document.id), turn_id=turn_id), TakenIn)
    artifacts.down = True
    assert not isinstance(await taking.take(file(document.id), turn_id=turn_id), Refused)
    assert len(taking.intake.admitted) == 1


async def test_plain_text_asks_nobody(artifacts: FakeArtifacts) -> None:
    artifacts.down = True
    assert isinstance(await TakingIn(artifacts).take(text("Hello.")), TakenIn)
