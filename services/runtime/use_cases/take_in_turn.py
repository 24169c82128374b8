"""Takes a message in as a turn of its session, and starts it when it can run at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from libs.contracts.api.sessions import FileBlock, ImageBlock, ImageUrlBlock, TextBlock
from libs.contracts.commands.runtime import ExecuteTurn
from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identity import Identity
from libs.eventing import Origin
from services.runtime.domain.conversation import ImagePart, Part, TextPart, UserMessage
from services.runtime.domain.conversation_json import part_to_json
from services.runtime.domain.intake import IntakePolicy
from services.runtime.domain.ports import TurnIntake
from services.runtime.domain.sessions import existing
from services.runtime.domain.turns import IntakeResult, Submission, TakenIn
from services.runtime.use_cases.group_commit import GroupCommit
from services.runtime.use_cases.turn_engine import TurnEngine

Block = TextBlock | ImageUrlBlock | FileBlock | ImageBlock


class TakeInTurn:
    def __init__(self, intake: TurnIntake, policy: IntakePolicy, engine: TurnEngine) -> None:
        self._engine = engine
        self._intake = GroupCommit[Submission, IntakeResult](partial(self._take_in_batch, intake, policy))

    async def take_in(self, command: ExecuteTurn, command_id: str, caller: Identity, origin: Origin) -> IntakeResult:
        """Raises ValidationFailed for content that no turn can be made of; other refusals are recorded results."""
        question = question_of(command.content)
        submission = Submission(
            turn_id=command_id,
            session_id=existing("session", command.session_id),
            caller=caller,
            origin=origin,
            stream=command.stream,
            question=question,
            blocks=None if isinstance(command.content, str) else [part_to_json(part) for part in question.parts],
        )
        return await self._intake.submit(submission)

    async def _take_in_batch(
        self, intake: TurnIntake, policy: IntakePolicy, submissions: Sequence[Submission]
    ) -> list[IntakeResult]:
        """Starts what was claimed right here, so that the slots are taken before the next batch asks for them."""
        results = await intake.take_in(submissions, policy.decide)
        for submission, result in zip(submissions, results, strict=True):
            if isinstance(result, TakenIn) and result.claimed is not None:
                self._engine.start(result.claimed, submission.question)
        return results


def question_of(content: str | Sequence[Block]) -> UserMessage:
    """The message that the content stands for; raises ValidationFailed naming each block that cannot be taken."""
    if isinstance(content, str):
        return UserMessage((TextPart(content),))
    parts: list[Part] = []
    faults: list[ErrorDetail] = []
    for place, block in enumerate(content):
        if isinstance(block, TextBlock):
            parts.append(TextPart(block.text))
        elif not isinstance(block, ImageUrlBlock):
            faults.append(_fault(place, block.type, "artifacts are not available in this installation"))
        elif block.image_url.url.lower().startswith(("https://", "http://")):
            parts.append(ImagePart(block.image_url.url))
        else:
            faults.append(_fault(place, block.type, "an image is given by its http or https URL"))
    if faults:
        raise ValidationFailed("the content cannot be taken", details=faults)
    return UserMessage(tuple(parts))


def _fault(place: int, kind: str, message: str) -> ErrorDetail:
    return ErrorDetail(loc=["content", place], type=f"{kind}_not_supported", message=message)
