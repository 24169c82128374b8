"""Builds the model's context from recent history and the contents of files."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

import structlog

from libs.contracts.errors import Conflict, ErrorDetail, NotFound, ServiceError, ServiceUnavailable, ValidationFailed
from libs.contracts.resources.artifacts import Artifact
from libs.contracts.resources.turns import CONTEXT_LENGTH_EXCEEDED
from services.runtime.domain.agents import AgentTask
from services.runtime.domain.artifacts import SessionArtifacts, part_of
from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    Citation,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolMessage,
    UserMessage,
    message_size,
)
from services.runtime.domain.images import UnreadableBitmap, data_url
from services.runtime.domain.tables import described

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """The limits of a context, in characters unless stated otherwise.

    ``documents`` is the total size of documents that are included whole. ``images`` is the number of images, and
    ``image_bytes`` their total size. ``processing_timeout`` is how many seconds to wait for the question's files.
    """

    history: int = 200_000
    documents: int = 24_000
    chunks: int = 8
    beginning: int = 4_000
    images: int = 20
    image_bytes: int = 15_000_000
    sample_rows: int = 5
    processing_timeout: float = 30.0
    pause: float = 0.5


@dataclass(frozen=True, slots=True)
class ModelContext:
    """A conversation without references to files. ``chunks`` are from documents that are too long to include whole."""

    messages: list[Message]
    chunks: tuple[Citation, ...] = ()
    warnings: tuple[str, ...] = ()
    any_files: bool = False


class ContextBuilder:
    def __init__(self, artifacts: SessionArtifacts | None = None, limits: ContextLimits | None = None) -> None:
        self._artifacts = artifacts
        self._limits = limits or ContextLimits()

    async def build(self, task: AgentTask) -> ModelContext:
        """Builds the context for a task. Raises ServiceUnavailable, or NotFound if a file of the question is missing.

        Raises ValidationFailed if a conversation is too long but must be complete.
        """
        history = newest_history(task.history, self._limits.history)
        is_cut = sum(map(message_size, task.history)) > self._limits.history
        warnings = self._warnings(task, len(task.history) - len(history)) if is_cut else ()
        messages = [*history, task.question, *task.answered]
        named = _named(messages)
        if self._artifacts is None or not named:
            return ModelContext(messages, warnings=warnings)
        return await _FileReader(self._artifacts, self._limits, task, list(warnings)).read(messages, named)

    def _warnings(self, task: AgentTask, left_out: int) -> tuple[str, ...]:
        longest = f"{self._limits.history:,} characters"
        if task.request.whole_history:
            message = f"The conversation exceeds the model's limit of {longest}. Send fewer or shorter messages."
            raise ValidationFailed(
                message, details=[ErrorDetail(loc=["messages"], type=CONTEXT_LENGTH_EXCEEDED, message=message)]
            )
        what = f"the conversation's oldest messages and tool results ({left_out})"
        return (f"{what} were omitted: a model only receives the newest {longest}",)


@dataclass(slots=True)
class _FileReader:
    """Reads the files of a conversation, newest first, so that older files only get what remains of the limits.

    ``long`` contains documents over the limit. An error in an older file only causes a warning.
    """

    artifacts: SessionArtifacts
    limits: ContextLimits
    task: AgentTask
    warnings: list[str]
    deadline: float = field(init=False)
    asked: set[str] = field(init=False)
    documents: int = field(init=False)
    images: int = field(init=False)
    image_bytes: int = field(init=False)
    long: list[Artifact] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.deadline = monotonic() + self.limits.processing_timeout
        self.asked = {part.artifact_id for part in _named([self.task.question])}
        self.documents = self.limits.documents
        self.images = self.limits.images
        self.image_bytes = self.limits.image_bytes

    async def read(self, messages: Sequence[Message], named: Sequence[ArtifactPart]) -> ModelContext:
        contents = {part.artifact_id: await self._parts(part) for part in reversed(named)}
        chunks = await self._chunks()
        replaced = [
            _replaced(message, contents) if isinstance(message, UserMessage) else message
            for message in reversed(messages)
        ]
        return ModelContext(replaced[::-1], chunks, tuple(self.warnings), any_files=True)

    async def _parts(self, part: ArtifactPart) -> list[Part]:
        asked = part.artifact_id in self.asked
        try:
            facts = await self._processed(part, wait=asked)
            if facts.processing_status == "ready" or (part.is_image and facts.processing_status == "pending"):
                return await self._content(facts, part.detail)
            problem = facts.error.message if facts.error else "it's still being processed"
        except ServiceError as error:
            # Without the file that the question is about, the answer would be wrong.
            if asked and isinstance(error, NotFound | ServiceUnavailable):
                raise
            _log.warning("artifact.left_out", artifact_id=part.artifact_id, kind=error.kind)
            problem = error.message
        self.warnings.append(f"the file {part.name} couldn't be read: {problem}")
        return [TextPart(f"[{_title(part)} couldn't be read: {problem}]", part)]

    async def _processed(self, part: ArtifactPart, *, wait: bool) -> Artifact:
        while True:
            facts = await self.artifacts.get(self.task.session_id, part.artifact_id, self.task.caller)
            if facts.processing_status != "pending" or part.is_image or not wait or monotonic() >= self.deadline:
                return facts
            await asyncio.sleep(self.limits.pause)

    async def _content(self, facts: Artifact, detail: str | None) -> list[Part]:
        match facts.processing_strategy:
            case "vision":
                return await self._image(facts, detail)
            case "structural_parsing":
                return [TextPart(await self._tables(facts), part_of(facts))]
            case _:
                return [TextPart(await self._document(facts), part_of(facts))]

    async def _image(self, facts: Artifact, detail: str | None) -> list[Part]:
        name = TextPart(f"[{_title(part_of(facts))}]", part_of(facts))
        if facts.size > self.limits.image_bytes:
            self.warnings.append(f"the image {facts.name} is too large for a model")
            return [name]
        if self.images == 0 or facts.size > self.image_bytes:
            if facts.artifact_id in self.asked or self.task.request.whole_history:
                most = f"the newest {self.limits.images} images, at most {self.limits.image_bytes:,} bytes in total"
                self.warnings.append(f"the image {facts.name} was omitted: a model only receives {most}")
            return [name]
        content = await self.artifacts.content(self.task.session_id, facts.artifact_id, self.task.caller)
        try:
            shown = ImagePart(await asyncio.to_thread(data_url, facts.content_type, content), detail)
        except UnreadableBitmap as problem:
            self.warnings.append(f"the image {facts.name} can't be converted for a model: {problem}")
            return [name]
        self.images -= 1
        self.image_bytes -= facts.size
        return [name, shown]

    async def _tables(self, facts: Artifact) -> str:
        title, rows = _title(part_of(facts)), self.limits.sample_rows
        try:
            tables = await self.artifacts.tables(self.task.session_id, facts.artifact_id, self.task.caller, rows=rows)
        except Conflict as problem:
            return f"[{title}: {problem.message}]"
        return f"[{title}]\n{described(tables)}"

    async def _document(self, facts: Artifact) -> str:
        title, size = _title(part_of(facts)), facts.metadata.get("characters")
        if size is None or size <= self.documents:
            text = await self.artifacts.text(
                self.task.session_id, facts.artifact_id, self.task.caller, offset=0, limit=self.documents + 1
            )
            if text.characters <= self.documents:
                self.documents -= text.characters
                return f"[{title}]\n\n{text.text.strip()}\n"
            size = text.characters
        self.long.append(facts)
        return f"[{title}, {size} characters; only passages are included]"

    async def _chunks(self) -> tuple[Citation, ...]:
        if not self.long:
            return ()
        try:
            return await self._search()
        except ServiceError as error:
            if any(facts.artifact_id in self.asked for facts in self.long):
                raise
            names = ", ".join(facts.name for facts in self.long)
            self.warnings.append(f"{names} couldn't be searched: {error.message}")
            return ()

    async def _search(self) -> tuple[Citation, ...]:
        """Returns the chunks that match the question, or else the start of the newest document."""
        task, query = self.task, self.task.question.text.strip()
        if query:
            ids = [facts.artifact_id for facts in self.long]
            found = await self.artifacts.search(
                task.session_id, query[:10_000], task.caller, artifact_ids=ids, top_k=self.limits.chunks
            )
            if found:
                return found
        newest = self.long[0]
        text = await self.artifacts.text(
            task.session_id, newest.artifact_id, task.caller, offset=0, limit=self.limits.beginning
        )
        return (Citation(text.text, file_name=newest.name, artifact_id=newest.artifact_id),)


def newest_history(history: Sequence[Message], longest: int) -> tuple[Message, ...]:
    """Returns the newest messages of `history` within `longest` characters, starting with a user message.

    If the history is longer, tool calls and results get at most half of the space. A message's text is never cut.
    """
    if sum(map(message_size, history)) > longest:
        history = _with_newest_calls(history, longest // 2)
    kept = len(history)
    size = 0
    while kept > 0:
        size += message_size(history[kept - 1])
        if size > longest:
            break
        kept -= 1
    while kept < len(history) and not isinstance(history[kept], UserMessage):
        kept += 1
    return tuple(history[kept:])


def _with_newest_calls(history: Sequence[Message], longest: int) -> list[Message]:
    """Removes the oldest tool calls and results, so that the remaining ones fit within `longest` characters."""
    kept: list[Message] = []
    results: list[Message] = []
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            results.append(message)
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            longest -= sum(map(message_size, (message, *results)))
            if longest >= 0:
                kept += [*results, message]
            elif message.text:
                kept.append(AssistantMessage(message.text))
            results = []
        else:
            kept.append(message)
    return kept[::-1]


def _named(messages: Sequence[Message]) -> list[ArtifactPart]:
    """Returns the files that the messages reference, in the order of their latest mentions."""
    newest: dict[str, ArtifactPart] = {}
    for message in messages:
        for part in message.parts if isinstance(message, UserMessage) else ():
            if isinstance(part, ArtifactPart):
                newest.pop(part.artifact_id, None)
                newest[part.artifact_id] = part
    return list(newest.values())


def _replaced(message: UserMessage, contents: dict[str, list[Part]]) -> UserMessage:
    """Replaces the latest reference to a file with its contents, and earlier references with its title.

    Must be called for the newest message first.
    """
    parts: list[Part] = []
    for part in reversed(message.parts):
        if isinstance(part, ArtifactPart):
            parts.extend(reversed(contents.pop(part.artifact_id, [TextPart(f"[{_title(part)}]", part)])))
        else:
            parts.append(part)
    return UserMessage(tuple(parts[::-1]))


def _title(part: ArtifactPart) -> str:
    return f"{'image' if part.is_image else 'file'} {part.name}, artifact {part.artifact_id}"
