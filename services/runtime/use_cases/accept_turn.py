"""Takes a message in as a turn of its session, and starts it when it can run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from libs.contracts.api.sessions import FileBlock, ImageBlock, ImageUrlBlock, TextBlock
from libs.contracts.commands.runtime import ExecuteTurn
from libs.contracts.errors import ErrorDetail, ServiceError, ServiceUnavailable, ValidationFailed
from libs.contracts.identity import Identity
from libs.eventing import MessageContext
from services.runtime.domain.admission import AdmissionPolicy
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import ArtifactPart, ImagePart, Part, TextPart, UserMessage
from services.runtime.domain.conversation_json import part_to_json
from services.runtime.domain.ports import TurnAdmissions
from services.runtime.domain.sessions import existing
from services.runtime.domain.turns import ClaimedTurn, IntakeResult, Submission, TakenIn
from services.runtime.use_cases.engine.claim_future import ClaimFuture
from services.runtime.use_cases.engine.group_commit import GroupCommit
from services.runtime.use_cases.engine.turn_engine import TurnEngine

_LOOK_UP_SECONDS: Final = 3.0
"""Less than the gateway waits for a turn to be taken up."""
_IMAGE: Final = "vision"
Block = TextBlock | ImageUrlBlock | FileBlock | ImageBlock


class AcceptTurn:
    def __init__(
        self,
        intake: TurnAdmissions,
        policy: AdmissionPolicy,
        engine: TurnEngine,
        artifacts: SessionArtifacts | None = None,
    ) -> None:
        self._engine = engine
        self._artifacts = artifacts
        self._intake = GroupCommit[Submission, IntakeResult](partial(self._take_in_batch, intake, policy))

    async def take_in(
        self, command: ExecuteTurn, command_id: str, caller: Identity, message_context: MessageContext
    ) -> IntakeResult:
        """Raises ValidationFailed for content that no turn can be made of; other refusals are recorded results."""
        session_id = existing("session", command.session_id)
        question = question_of(command.content)
        fault: ServiceError | None = None
        if named := _named(question):
            question, fault = await self._looked_up(question, named, session_id, caller)
        submission = Submission(
            turn_id=command_id,
            session_id=session_id,
            caller=caller,
            message_context=message_context,
            stream=command.stream,
            question=question,
            blocks=None if isinstance(command.content, str) else [part_to_json(part) for part in question.parts],
            fault=fault,
        )
        return await self._intake.submit(submission)

    async def _looked_up(
        self, question: UserMessage, named: Sequence[ArtifactPart], session_id: str, caller: Identity
    ) -> tuple[UserMessage, ServiceError | None]:
        """The question with what is known of its artifacts, or what is wrong with one of them."""
        if self._artifacts is None:
            return question, ValidationFailed("artifacts are not available in this installation")
        try:
            async with asyncio.timeout(_LOOK_UP_SECONDS):
                known = await asyncio.gather(*(_look_up(self._artifacts, part, session_id, caller) for part in named))
        except TimeoutError:
            return question, ServiceUnavailable("the artifacts service did not answer in time", retry_after=2)
        except ServiceError as problem:
            return question, problem
        found = dict(zip(named, known, strict=True))
        parts = tuple(found[part] if isinstance(part, ArtifactPart) else part for part in question.parts)
        return UserMessage(parts), _wrong_kind(question.parts, found)

    async def _take_in_batch(
        self, intake: TurnAdmissions, policy: AdmissionPolicy, submissions: Sequence[Submission]
    ) -> list[IntakeResult]:
        """Starts what is claimed while that is being committed: the model is asked meanwhile."""
        commit = ClaimFuture()
        begun: list[ClaimedTurn] = []

        def run_ahead(results: Sequence[IntakeResult]) -> None:
            for submission, result in zip(submissions, results, strict=True):
                if isinstance(result, TakenIn) and result.claimed is not None:
                    begun.append(result.claimed)
                    self._engine.start(result.claimed, submission.question, commit)

        try:
            results = await intake.take_in(submissions, policy.decide, run_ahead)
        except BaseException:
            commit.settle(succeeded=False)
            for turn in begun:
                self._engine.stop(turn.id)
            raise
        commit.settle(succeeded=True)
        return results


def question_of(content: str | Sequence[Block]) -> UserMessage:
    """The message that the content stands for, its artifacts not looked up yet.

    Raises ValidationFailed naming each block that cannot be taken.
    """
    if isinstance(content, str):
        return UserMessage((TextPart(content),))
    parts: list[Part] = []
    faults: list[ErrorDetail] = []
    for place, block in enumerate(content):
        if isinstance(block, TextBlock):
            parts.append(TextPart(block.text))
        elif isinstance(block, FileBlock):
            parts.append(ArtifactPart(block.source.artifact_id, "", "", ""))
        elif isinstance(block, ImageBlock) and not block.url.lower().startswith("data:"):
            parts.append(ArtifactPart("", "", "", _IMAGE, block.url))
        elif isinstance(block, ImageUrlBlock) and block.image_url.url.lower().startswith(("https://", "http://")):
            parts.append(ImagePart(block.image_url.url))
        else:
            faults.append(_fault(place, block.type, "not_supported", "an image is given by its http or https URL"))
    if faults:
        raise ValidationFailed("the content cannot be taken", details=faults)
    return UserMessage(tuple(parts))


def _named(question: UserMessage) -> list[ArtifactPart]:
    return list(dict.fromkeys(part for part in question.parts if isinstance(part, ArtifactPart)))


async def _look_up(artifacts: SessionArtifacts, part: ArtifactPart, session_id: str, caller: Identity) -> ArtifactPart:
    if part.url is not None:
        return (await artifacts.by_url(session_id, part.url, caller)).part(part.url)
    return (await artifacts.get(session_id, existing("artifact", part.artifact_id), caller)).part()


def _wrong_kind(parts: Sequence[Part], found: dict[ArtifactPart, ArtifactPart]) -> ValidationFailed | None:
    """An image block must name an image; a file block takes any file."""
    faults = [
        _fault(place, "image", "wrong_kind", "this artifact is no image: refer to it by a file block")
        for place, part in enumerate(parts)
        if isinstance(part, ArtifactPart) and part.url is not None and not found[part].is_image
    ]
    return ValidationFailed("the content cannot be taken", details=faults) if faults else None


def _fault(place: int, block: str, problem: str, message: str) -> ErrorDetail:
    return ErrorDetail(loc=["content", place], type=f"{block}_{problem}", message=message)
