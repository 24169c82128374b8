"""Keep an agent's artifact among the company's files, and take it away again."""

from collections.abc import Callable
from typing import Any, Final, Literal

from libs.contracts.commands.artifacts import CopyArtifactToPlatform, RemoveArtifactFromPlatform
from libs.contracts.errors import Conflict, ErrorInfo, ErrorKind
from libs.contracts.events.artifacts import ArtifactCopied, ArtifactRemoved
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Command, CommandRejected, Event
from libs.eventing import CommandContext, EventDraft, MessageContext, Transaction
from services.artifacts.domain.artifacts import ArtifactNotFound
from services.artifacts.domain.platform import ErrandState, NotCopied, PlatformPlace, PlatformState, PlatformWriter

_COMMANDS: Final[dict[ErrandState, type[Command]]] = {
    "copying": CopyArtifactToPlatform,
    "removing": RemoveArtifactFromPlatform,
}


class PlatformCopying:
    """Each method runs in a transaction of the caller's. ``on_errand``: there is something to send after it."""

    def __init__(self, writer: Callable[[Transaction], PlatformWriter], *, on_errand: Callable[[], None]) -> None:
        self._writer = writer
        self._on_errand = on_errand

    async def copy(self, transaction: Transaction, command: CopyArtifactToPlatform, context: CommandContext) -> None:
        """Ends at once when there is a copy already. Raises ``ArtifactNotFound`` and ``Conflict``."""
        writer = self._writer(transaction)
        place = await _place(writer, command, context)
        if place.artifact.origin != "generated":
            raise Conflict("Only an artifact that an agent made can be copied; files are uploaded to the platform.")
        if place.state == "removing":
            raise Conflict("The copy is just being removed; try again.")
        if place.state == "copied":
            _emit(transaction, place, context.message)
            return
        if place.state == "none":
            await self._begin(writer, place, "copying", new_id(), context)
        await writer.wait(place.artifact.id, "copying", context.message)

    async def remove(
        self, transaction: Transaction, command: RemoveArtifactFromPlatform, context: CommandContext
    ) -> None:
        """Ends at once when the copy is gone already. Raises ``ArtifactNotFound`` and ``Conflict``."""
        writer = self._writer(transaction)
        place = await _place(writer, command, context)
        if place.file_id is None:
            raise NotCopied
        if place.state == "copying":
            raise Conflict("The artifact is just being copied; try again.")
        if place.state == "none":
            _emit(transaction, place, context.message)
            return
        if place.state == "copied":
            await self._begin(writer, place, "removing", place.file_id, context)
        await writer.wait(place.artifact.id, "removing", context.message)

    async def file_stored(self, transaction: Transaction, file_id: str) -> None:
        """The company has a file with this id."""
        writer = self._writer(transaction)
        place = await writer.lock_file(file_id)
        if place is not None and place.state == "copying":
            await self._settle(transaction, writer, place, "copied")

    async def file_deleted(self, transaction: Transaction, file_id: str, context: MessageContext) -> None:
        """A file is gone, whoever deleted it."""
        writer = self._writer(transaction)
        place = await writer.lock_file(file_id)
        if place is None or place.state == "none":
            return
        # Nobody here asked for it: it was deleted among the company's files.
        if place.state == "copied":
            await writer.settle(place.artifact.id, "none", file_id)
            _emit(transaction, _in_state(place, "none"), context)
            return
        await self._settle(transaction, writer, place, "none")

    async def errand_refused(self, transaction: Transaction, command_id: str, error: ErrorInfo) -> None:
        """The command that was sent is not carried out; those who wait are told why."""
        writer = self._writer(transaction)
        place = await writer.lock_errand(command_id)
        if place is None:
            return
        # Somebody else deleted the file, which is what was wanted.
        if place.state == "removing" and error.type is ErrorKind.NOT_FOUND:
            await self._settle(transaction, writer, place, "none")
            return
        if place.state == "removing":
            await writer.settle(place.artifact.id, "copied", place.file_id)
        else:
            await writer.settle(place.artifact.id, "none", None)
        for state, context in await writer.waiting([place.artifact.id]):
            _reject(transaction, state, context, error)

    async def session_deleted(self, transaction: Transaction, artifact_ids: list[str]) -> None:
        """Nobody is left waiting for what will not be done. What was sent is done or refused, and told then."""
        writer = self._writer(transaction)
        for state, context in await writer.waiting(await writer.not_sent(artifact_ids)):
            _reject(transaction, state, context, ArtifactNotFound().info())

    async def _begin(
        self, writer: PlatformWriter, place: PlatformPlace, state: ErrandState, file_id: str, context: CommandContext
    ) -> None:
        label = context.message.correlation_id
        await writer.begin(place.artifact.id, state, file_id, context.identity, label)
        self._on_errand()

    @staticmethod
    async def _settle(
        transaction: Transaction, writer: PlatformWriter, place: PlatformPlace, state: Literal["none", "copied"]
    ) -> None:
        await writer.settle(place.artifact.id, state, place.file_id)
        for _, context in await writer.waiting([place.artifact.id]):
            _emit(transaction, _in_state(place, state), context)


async def _place(writer: PlatformWriter, command: Any, context: CommandContext) -> PlatformPlace:
    place = await writer.lock(command.artifact_id)
    if place is None or place.artifact.session_id != command.session_id:
        raise ArtifactNotFound
    # Told like one that is not there, so that nobody learns of it.
    if not place.artifact.session.writable_by(context.identity):
        raise ArtifactNotFound
    return place


def _in_state(place: PlatformPlace, state: PlatformState) -> PlatformPlace:
    return PlatformPlace(artifact=place.artifact, state=state, file_id=place.file_id)


def _emit(transaction: Transaction, place: PlatformPlace, context: MessageContext) -> None:
    ids: dict[str, Any] = {
        "artifact_id": place.artifact.id,
        "session_id": place.artifact.session_id,
        "file_id": place.file_id,
    }
    event: Event = ArtifactCopied(**ids) if place.state == "copied" else ArtifactRemoved(**ids)
    transaction.emit(event, subject=place.artifact.id, context=context)


def _reject(transaction: Transaction, state: ErrandState, context: MessageContext, error: ErrorInfo) -> None:
    transaction.drafts.append(
        EventDraft(
            CommandRejected(error=error),
            subject=context.causation_id or "",
            context=context,
            sequence=1,
            type=_COMMANDS[state].rejected_type(),
            topic=ArtifactCopied.TOPIC.name,
        )
    )
