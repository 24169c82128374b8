"""Puts what the files of a conversation hold in the place of the references to them, as far as a model takes it in."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

import structlog

from libs.contracts.errors import Conflict, NotFound, ServiceError, ServiceUnavailable
from services.runtime.domain.agent_ports import AgentTask
from services.runtime.domain.artifacts import ArtifactFacts, SessionArtifacts
from services.runtime.domain.conversation import (
    ArtifactPart,
    Citation,
    ImagePart,
    Message,
    Part,
    TextPart,
    UserMessage,
)
from services.runtime.domain.tables import described

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """Sizes in characters, those of images in bytes, times in seconds.

    ``whole``: documents up to it in all are given as they are, longer ones by passages. ``patience``: how long the
    files of the question may still be in processing.
    """

    whole: int = 24_000
    passages: int = 8
    beginning: int = 4_000
    images: int = 4
    image_bytes: int = 15_000_000
    sample_rows: int = 5
    patience: float = 30.0
    pause: float = 0.5


@dataclass(frozen=True, slots=True)
class ModelContext:
    """The conversation without references; passages of documents that are too long to be in it.

    ``any_files``: whether there were references.
    """

    messages: list[Message]
    passages: tuple[Citation, ...] = ()
    warnings: tuple[str, ...] = ()
    any_files: bool = False


@dataclass(slots=True)
class _Showing:
    """What is left of the limits, and what was found so far. ``asked``: ids of the files of the question."""

    task: AgentTask
    asked: set[str]
    whole: int
    images: int
    deadline: float
    long: list[ArtifactFacts] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class ContextBuilder:
    """The newest files come first: what is left for older ones is less, and their problems only warn."""

    def __init__(
        self,
        artifacts: SessionArtifacts,
        limits: ContextLimits | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._artifacts = artifacts
        self._limits = limits or ContextLimits()
        self._clock = clock

    async def show(self, task: AgentTask, messages: Sequence[Message]) -> ModelContext:
        """Raises ServiceUnavailable, and NotFound for a file of the question that is gone."""
        named = _named(messages)
        if not named:
            return ModelContext(list(messages))
        showing = _Showing(
            task,
            {part.artifact_id for part in _named([task.question])},
            self._limits.whole,
            self._limits.images,
            self._clock() + self._limits.patience,
        )
        given: dict[str, list[Part]] = {}
        # The newest first: what the limits allow goes to what the question is most likely about.
        for part in reversed(named):
            given[part.artifact_id] = await self._part(part, showing)
        passages = await self._passages(showing)
        shown: list[Message] = []
        for message in reversed(messages):
            shown.append(_replaced(message, given) if isinstance(message, UserMessage) else message)
        return ModelContext(shown[::-1], passages, tuple(showing.warnings), any_files=True)

    async def _part(self, part: ArtifactPart, showing: _Showing) -> list[Part]:
        asked = part.artifact_id in showing.asked
        try:
            facts = await self._settled(part, showing, patient=asked)
            if facts.status == "ready" or (part.is_image and facts.status == "pending"):
                return await self._content(facts, showing)
            problem = facts.problem or "it is still being processed"
        except ServiceError as error:
            # An answer without the file that it was asked about would be a wrong one.
            if asked and isinstance(error, NotFound | ServiceUnavailable):
                raise
            _log.warning("artifact.not_shown", artifact_id=part.artifact_id, kind=error.kind)
            problem = error.message
        showing.warnings.append(f"the file {part.name} could not be read: {problem}")
        return [TextPart(f"[{_label(part)} could not be read: {problem}]", part)]

    async def _settled(self, part: ArtifactPart, showing: _Showing, *, patient: bool) -> ArtifactFacts:
        while True:
            facts = await self._artifacts.get(showing.task.session_id, part.artifact_id, showing.task.caller)
            if facts.status != "pending" or part.is_image or not patient or self._clock() >= showing.deadline:
                return facts
            await asyncio.sleep(self._limits.pause)

    async def _content(self, facts: ArtifactFacts, showing: _Showing) -> list[Part]:
        match facts.strategy:
            case "vision":
                return await self._image(facts, showing)
            case "structural_parsing":
                return [TextPart(await self._tables(facts, showing), facts.part())]
            case _:
                return [TextPart(await self._document(facts, showing), facts.part())]

    async def _image(self, facts: ArtifactFacts, showing: _Showing) -> list[Part]:
        name = TextPart(f"[{_label(facts.part())}]", facts.part())
        if showing.images == 0:
            return [name]
        if facts.size > self._limits.image_bytes:
            showing.warnings.append(f"the image {facts.name} is too large to be shown to a model")
            return [name]
        showing.images -= 1
        task = showing.task
        content = await self._artifacts.content(task.session_id, facts.id, task.caller)
        encoded = await asyncio.to_thread(base64.b64encode, content)
        return [name, ImagePart(f"data:{facts.content_type};base64,{encoded.decode()}")]

    async def _tables(self, facts: ArtifactFacts, showing: _Showing) -> str:
        task = showing.task
        try:
            tables = await self._artifacts.tables(task.session_id, facts.id, task.caller, rows=self._limits.sample_rows)
        except Conflict as problem:
            return f"[{_label(facts.part())}: {problem.message}]"
        return f"[{_label(facts.part())}]\n{described(tables)}"

    async def _document(self, facts: ArtifactFacts, showing: _Showing) -> str:
        label, task = _label(facts.part()), showing.task
        size = facts.characters
        if size is None or size <= showing.whole:
            text = await self._artifacts.text(task.session_id, facts.id, task.caller, offset=0, limit=showing.whole + 1)
            if text.characters <= showing.whole:
                showing.whole -= text.characters
                return f"[{label}]\n\n{text.text.strip()}\n"
            size = text.characters
        showing.long.append(facts)
        return f"[{label}, {size} characters: only passages of it are given]"

    async def _passages(self, showing: _Showing) -> tuple[Citation, ...]:
        """Of the documents that are not given whole: what fits the question, else how the newest begins."""
        if not showing.long:
            return ()
        try:
            return await self._found(showing)
        except ServiceError as error:
            if any(facts.id in showing.asked for facts in showing.long):
                raise
            names = ", ".join(facts.name for facts in showing.long)
            showing.warnings.append(f"{names} could not be searched: {error.message}")
            return ()

    async def _found(self, showing: _Showing) -> tuple[Citation, ...]:
        task, query = showing.task, showing.task.question.text.strip()
        if query:
            ids = [facts.id for facts in showing.long]
            found = await self._artifacts.search(
                task.session_id, query[:10_000], task.caller, artifact_ids=ids, top_k=self._limits.passages
            )
            if found:
                return found
        newest = showing.long[0]
        text = await self._artifacts.text(
            task.session_id, newest.id, task.caller, offset=0, limit=self._limits.beginning
        )
        return (Citation(text.text, file_name=newest.name, artifact_id=newest.id),)


def _named(messages: Sequence[Message]) -> list[ArtifactPart]:
    """The files that the messages refer to, each at its newest place."""
    newest: dict[str, ArtifactPart] = {}
    for message in messages:
        for part in message.parts if isinstance(message, UserMessage) else ():
            if isinstance(part, ArtifactPart):
                # A file that is named again moves to its newer place.
                newest.pop(part.artifact_id, None)
                newest[part.artifact_id] = part
    return list(newest.values())


def _replaced(message: UserMessage, given: dict[str, list[Part]]) -> UserMessage:
    """Called from the newest message to the oldest: a file stands whole where it was named last."""
    parts: list[Part] = []
    for part in reversed(message.parts):
        if isinstance(part, ArtifactPart):
            parts.extend(reversed(given.pop(part.artifact_id, [TextPart(f"[{_label(part)}]", part)])))
        else:
            parts.append(part)
    return UserMessage(tuple(parts[::-1]))


def _label(part: ArtifactPart) -> str:
    return f"{'image' if part.is_image else 'file'} {part.name}, artifact {part.artifact_id}"
