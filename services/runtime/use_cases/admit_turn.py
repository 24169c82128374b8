"""Admits messages as turns of their sessions."""

import asyncio
from collections.abc import Sequence
from typing import Final

from libs.contracts.errors import ErrorDetail, ServiceError, ServiceUnavailable, ValidationFailed
from libs.contracts.identifiers import id_of, new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext
from libs.contracts.resources.turns import ExecuteTurn
from libs.eventing import AlreadyProcessed
from libs.outbound import GuardedResolver
from services.runtime.domain.admission import AdmissionPolicy, Decision, Duplicate, Refused
from services.runtime.domain.artifacts import SessionArtifacts, part_of
from services.runtime.domain.beginnings import NO_IMAGE_URL, Block, history_of, new_session, part_of_block
from services.runtime.domain.conversation import ArtifactPart, ImagePart, Message, Part, TextPart, UserMessage
from services.runtime.domain.conversation_json import part_to_json
from services.runtime.domain.ports import TurnAdmissions
from services.runtime.domain.turns import ClaimedTurn, Submission
from services.runtime.use_cases.engine.commits import ClaimFuture, GroupCommit
from services.runtime.use_cases.engine.turn_engine import TurnEngine

_LOOKUP_SECONDS: Final = 3.0
"""This is shorter than the time that the gateway waits for a command to be accepted."""


class AdmitTurn:
    """Admits one message per call. Concurrent calls share a transaction (``GroupCommit``)."""

    def __init__(
        self,
        admissions: TurnAdmissions,
        policy: AdmissionPolicy,
        engine: TurnEngine,
        artifacts: SessionArtifacts | None = None,
        addresses: GuardedResolver | None = None,
    ) -> None:
        self._admissions = admissions
        self._policy = policy
        self._engine = engine
        self._artifacts = artifacts
        self._addresses = addresses
        self._commits = GroupCommit[Submission, Decision](self._commit, lambda each: each.caller.company_id)

    async def __call__(self, command: ExecuteTurn, context: CommandContext) -> ServiceError | None:
        """Admits the turn. Returns the rejection if it was recorded. Raises ``AlreadyProcessed`` for a redelivery.

        Raises ValidationFailed if the content can't become a turn.
        """
        session_id = id_of(command.session_id, "session")
        question = question_of(command.content)
        begins = None if command.begins is None else new_session(command.begins, session_id, context.identity)
        history: Sequence[Message] = () if begins is None else begins.messages
        if (client_calls := command.request.client_calls) is not None:
            history = (*history, *history_of(client_calls.answered, history))
        error: ServiceError | None = await self._address_error(question.parts)
        if error is None:
            error = await self._address_error(_images(history))
        if error is None and (named := _named(question)):
            question, error = await self._resolve_artifacts(question, named, session_id, context.identity)
        submission = Submission(
            turn_id=context.command_id,
            session_id=session_id,
            user_message_id=new_id(),
            caller=context.identity,
            message_context=context.message,
            request=command.request,
            question=question,
            blocks=None if isinstance(command.content, str) else [part_to_json(part) for part in question.parts],
            validation_error=error,
            begins=begins,
        )
        decision = await self._commits.submit(submission)
        if isinstance(decision, Duplicate):
            raise AlreadyProcessed(context.command_id)
        return decision.error if isinstance(decision, Refused) else None

    async def _commit(self, submissions: Sequence[Submission]) -> list[Decision]:
        """Decides on a batch in one transaction. Claimed turns start while it commits (docs/decisions/0005)."""
        claim = ClaimFuture()
        claimed: list[ClaimedTurn] = []
        try:
            async with self._admissions.open(submissions) as batch:
                decisions = self._policy.decide(submissions, batch.view, self._engine.slots())
                claimed = await batch.write(decisions)
                for session in batch.begun:
                    self._engine.conversations.prime(session)
                # Started while the batch commits: until then, the turns may call models but not write.
                questions = {submission.turn_id: submission.question for submission in submissions}
                for turn in claimed:
                    self._engine.start(turn, questions[turn.id], claim)
        except BaseException:
            claim.settle(committed=False)
            for turn in claimed:
                self._engine.stop(turn.id)
            for submission in submissions:
                if submission.begins is not None:
                    self._engine.conversations.forget(submission.session_id)
            raise
        claim.settle(committed=True)
        return decisions

    async def _address_error(self, parts: Sequence[Part]) -> ValidationFailed | None:
        """Returns an error if an image isn't on the public internet."""
        urls = {index: part.url for index, part in enumerate(parts) if isinstance(part, ImagePart)}
        if self._addresses is None or not urls:
            return None
        refusals = await asyncio.gather(*(self._addresses.refusal(url) for url in urls.values()))
        errors = [
            _block_error(index, "image_url", "address_refused", f"the image can't be fetched: {reason}")
            for index, reason in zip(urls, refusals, strict=True)
            if reason is not None
        ]
        return ValidationFailed(f"Invalid content: {errors[0].message}.", details=errors) if errors else None

    async def _resolve_artifacts(
        self, question: UserMessage, named: Sequence[ArtifactPart], session_id: str, caller: Identity
    ) -> tuple[UserMessage, ServiceError | None]:
        """Returns the question with its artifacts' metadata, and the first error, if any."""
        if self._artifacts is None:
            return question, ValidationFailed("Artifacts aren't available in this installation.")
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                known = await asyncio.gather(*(_look_up(self._artifacts, part, session_id, caller) for part in named))
        except TimeoutError:
            return question, ServiceUnavailable(
                "The artifacts service didn't respond in time. Try again later.", retry_after=2
            )
        except ServiceError as problem:
            return question, problem
        found = dict(zip(named, known, strict=True))
        parts = tuple(found[part] if isinstance(part, ArtifactPart) else part for part in question.parts)
        return UserMessage(parts), _kind_error(question.parts, found)


def question_of(content: str | Sequence[Block]) -> UserMessage:
    """Converts the content to a message. Raises ValidationFailed with a detail for each unusable block."""
    if isinstance(content, str):
        return UserMessage((TextPart(content),))
    parts: list[Part] = []
    errors: list[ErrorDetail] = []
    for index, block in enumerate(content):
        if (part := part_of_block(block)) is not None:
            parts.append(part)
        else:
            errors.append(_block_error(index, block.type, "not_supported", NO_IMAGE_URL))
    if errors:
        raise ValidationFailed(f"Invalid content: {errors[0].message}.", details=errors)
    return UserMessage(tuple(parts))


def _images(messages: Sequence[Message]) -> list[Part]:
    parts = (part for message in messages if isinstance(message, UserMessage) for part in message.parts)
    return [part for part in parts if isinstance(part, ImagePart)]


def _named(question: UserMessage) -> list[ArtifactPart]:
    return list(dict.fromkeys(part for part in question.parts if isinstance(part, ArtifactPart)))


async def _look_up(artifacts: SessionArtifacts, part: ArtifactPart, session_id: str, caller: Identity) -> ArtifactPart:
    if part.url is not None:
        return part_of(await artifacts.by_url(session_id, part.url, caller), part.url, part.detail)
    found = await artifacts.get(session_id, id_of(part.artifact_id, "artifact"), caller)
    return part_of(found, detail=part.detail)


def _kind_error(parts: Sequence[Part], found: dict[ArtifactPart, ArtifactPart]) -> ValidationFailed | None:
    """Returns an error if an image block references another kind of file."""
    errors = [
        _block_error(index, "image", "wrong_kind", "this artifact isn't an image; use a file block for it")
        for index, part in enumerate(parts)
        if isinstance(part, ArtifactPart) and part.url is not None and not found[part].is_image
    ]
    return ValidationFailed(f"Invalid content: {errors[0].message}.", details=errors) if errors else None


def _block_error(index: int, block: str, problem: str, message: str) -> ErrorDetail:
    return ErrorDetail(loc=["content", index], type=f"{block}_{problem}", message=message)
