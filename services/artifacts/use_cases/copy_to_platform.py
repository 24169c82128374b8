"""Copies artifacts created by agents to the company's files, and removes these copies.

The service sends a command to ingestion. The caller's command ends when ingestion has answered.
"""

from dataclasses import replace
from typing import Any, Final, Literal

from libs.contracts.errors import Conflict, ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Command, CommandContext, CommandRejected, Draft, Envelope, Event, MessageContext
from libs.contracts.resources.artifacts import (
    ArtifactCopied,
    ArtifactRemoved,
    CopyArtifactToPlatform,
    RemoveArtifactFromPlatform,
)
from libs.contracts.resources.files import CopyArtifact, DeleteFile, FileDeleted, FileUploaded
from libs.eventing import Outbox, Transaction
from services.artifacts.adapters.postgres.copies import PostgresPlatformWriter
from services.artifacts.domain.artifacts import ArtifactNotFound
from services.artifacts.domain.platform import CopyState, InFlightState, OutboundCommand

_COMMANDS: Final[dict[InFlightState, type[Command]]] = {
    "copying": CopyArtifactToPlatform,
    "removing": RemoveArtifactFromPlatform,
}
# Ingestion answers within seconds. After this long, the command or its answer was lost, or ingestion is down.
_UNANSWERED_SECONDS: Final = 600.0
_AT_ONCE: Final = 100


class PlatformCopies:
    async def copy(self, transaction: Transaction, command: CopyArtifactToPlatform, context: CommandContext) -> None:
        """Starts copying an artifact, unless it's already copied. Raises ``ArtifactNotFound`` or ``Conflict``."""
        writer = PostgresPlatformWriter(transaction)
        copy = await _locked(writer, command, context)
        if copy.artifact.origin != "generated":
            raise Conflict("Only artifacts created by agents can be copied. Upload other files with POST /files/.")
        if copy.state == "removing":
            raise Conflict("The copy is being removed. Try again later.")
        if copy.state == "copied":
            _emit(transaction, copy, context.message)
            return
        if copy.state == "none":
            await _begin(transaction, writer, replace(copy, state="copying", file_id=new_id()), context)
        await writer.wait(copy.artifact.id, "copying", context.message)

    async def remove(
        self, transaction: Transaction, command: RemoveArtifactFromPlatform, context: CommandContext
    ) -> None:
        """Starts removing an artifact's copy, unless it's already removed.

        Raises ``ArtifactNotFound`` or ``Conflict``.
        """
        writer = PostgresPlatformWriter(transaction)
        copy = await _locked(writer, command, context)
        if copy.file_id is None:
            raise Conflict("The artifact wasn't copied to the company's files.")
        if copy.state == "copying":
            raise Conflict("The artifact is being copied. Try again later.")
        if copy.state == "none":
            _emit(transaction, copy, context.message)
            return
        if copy.state == "copied":
            await _begin(transaction, writer, replace(copy, state="removing"), context)
        await writer.wait(copy.artifact.id, "removing", context.message)

    async def finish_copy(self, transaction: Transaction, event: FileUploaded, _: Envelope) -> None:
        writer = PostgresPlatformWriter(transaction)
        copy = await writer.lock_file(event.file.id)
        if copy is not None and copy.state == "copying":
            await _settle(transaction, writer, copy, "copied")

    async def finish_removal(self, transaction: Transaction, event: FileDeleted, envelope: Envelope) -> None:
        """Records that a copy was deleted, whether this service or a user deleted it."""
        writer = PostgresPlatformWriter(transaction)
        copy = await writer.lock_file(event.file_id)
        if copy is None or copy.state == "none":
            return
        # The file was deleted by a user, not by a command from this service.
        if copy.state == "copied":
            await writer.settle(copy.artifact.id, "none", copy.file_id)
            context = MessageContext(envelope.company_id, envelope.correlation_id, envelope.id, envelope.traceparent)
            _emit(transaction, replace(copy, state="none"), context)
            return
        await _settle(transaction, writer, copy, "none")

    async def reject(self, transaction: Transaction, event: CommandRejected, envelope: Envelope) -> None:
        """Handles ingestion's rejection of a command by rejecting the callers' commands that are waiting for it."""
        if envelope.causation_id is None:
            return
        writer, error = PostgresPlatformWriter(transaction), event.error
        copy = await writer.lock_command(envelope.causation_id)
        if copy is None:
            return
        # Someone else deleted the file, so the goal is reached.
        if copy.state == "removing" and error.type is ErrorKind.NOT_FOUND:
            await _settle(transaction, writer, copy, "none")
            return
        if copy.state == "removing":
            await writer.settle(copy.artifact.id, "copied", copy.file_id)
        else:
            await writer.settle(copy.artifact.id, "none", None)
        for state, context in await writer.take_waiting(copy.artifact.id):
            _reject(transaction, state, context, error)


async def resend_commands(outbox: Outbox) -> int:
    """Sends unanswered commands to ingestion again. Their IDs stay the same, so that each is executed once.

    Returns the number of commands sent.
    """
    async with outbox.transaction() as transaction:
        commands = await PostgresPlatformWriter(transaction).unanswered(_UNANSWERED_SECONDS, _AT_ONCE)
        for command in commands:
            _send(transaction, command, MessageContext(command.identity.company_id, command.correlation_id))
    return len(commands)


async def _locked(
    writer: PostgresPlatformWriter,
    command: CopyArtifactToPlatform | RemoveArtifactFromPlatform,
    context: CommandContext,
) -> CopyState:
    copy = await writer.lock(command.artifact_id)
    if copy is None or copy.artifact.session_id != command.session_id:
        raise ArtifactNotFound
    # Raise the same error as for a missing artifact, so that the error doesn't reveal that the artifact exists.
    if not copy.artifact.session.writable_by(context.identity):
        raise ArtifactNotFound
    return copy


async def _begin(
    transaction: Transaction, writer: PostgresPlatformWriter, copy: CopyState, context: CommandContext
) -> None:
    command = OutboundCommand(
        command_id=new_id(), copy=copy, identity=context.identity, correlation_id=context.message.correlation_id
    )
    await writer.begin(command)
    _send(transaction, command, context.message)


def _send(transaction: Transaction, command: OutboundCommand, context: MessageContext) -> None:
    artifact, file_id = command.copy.artifact, command.copy.file_id or ""
    message: Command = DeleteFile(file_id=file_id)
    if command.copy.state == "copying":
        message = CopyArtifact(
            file_id=file_id,
            artifact_id=artifact.id,
            session_id=artifact.session_id,
            name=artifact.name,
            content_type=artifact.content_type,
        )
    transaction.send(
        message, command_id=command.command_id, subject=file_id, identity=command.identity, context=context
    )


async def _settle(
    transaction: Transaction, writer: PostgresPlatformWriter, copy: CopyState, state: Literal["none", "copied"]
) -> None:
    await writer.settle(copy.artifact.id, state, copy.file_id)
    for _, context in await writer.take_waiting(copy.artifact.id):
        _emit(transaction, replace(copy, state=state), context)


def _emit(transaction: Transaction, copy: CopyState, context: MessageContext) -> None:
    ids: dict[str, Any] = {
        "artifact_id": copy.artifact.id,
        "session_id": copy.artifact.session_id,
        "file_id": copy.file_id,
    }
    event: Event = ArtifactCopied(**ids) if copy.state == "copied" else ArtifactRemoved(**ids)
    transaction.emit(event, subject=copy.artifact.id, owner_id=copy.artifact.owner_id, context=context)


def _reject(transaction: Transaction, state: InFlightState, context: MessageContext, error: ErrorInfo) -> None:
    transaction.drafts.append(
        Draft(
            CommandRejected(error=error),
            subject=context.causation_id or "",
            context=context,
            sequence=1,
            type=_COMMANDS[state].rejected_type(),
            topic=ArtifactCopied.TOPIC.name,
        )
    )
