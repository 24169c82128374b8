"""Changes and deletes files, individually or in bulk."""

from collections.abc import Sequence
from dataclasses import replace

from libs.contracts.messages import CommandContext, Event
from libs.contracts.resources.files import (
    BulkReply,
    ChangeFiles,
    DeleteFile,
    FileDeleted,
    FileResult,
    FilesChanged,
    FileUpdated,
)
from libs.eventing import Transaction
from services.ingestion.adapters.postgres.files import PostgresFileWriter
from services.ingestion.domain.files import FileNotFound


class Files:
    async def delete(self, transaction: Transaction, command: DeleteFile, context: CommandContext) -> None:
        """Deletes a file. Raises ``FileNotFound``."""
        files = PostgresFileWriter(transaction)
        if not await files.lock(context.identity.company_id, [command.file_id]):
            raise FileNotFound()
        await files.delete([command.file_id], context.message.correlation_id)
        transaction.emit(FileDeleted(file_id=command.file_id), subject=command.file_id)

    async def change(self, transaction: Transaction, command: ChangeFiles, context: CommandContext) -> None:
        """Applies an operation to several files. For a missing file, the reply contains an error."""
        files, requested = PostgresFileWriter(transaction), list(dict.fromkeys(command.file_ids))
        existing = await files.lock(context.identity.company_id, requested)
        ids = [file_id for file_id in requested if file_id in existing]
        # The events have no causation ID: with one, each would count as an outcome of this command, which has only one.
        message = replace(context.message, causation_id=None)
        for file_id, event in await _apply(files, command, ids, context):
            transaction.emit(event, subject=file_id, context=message)
        results = [_result(file_id, file_id in existing) for file_id in requested]
        reply = BulkReply(success=bool(ids), processed=len(ids), failed=len(requested) - len(ids), results=results)
        transaction.emit(FilesChanged(operation=command.operation, reply=reply), subject=context.command_id)


async def _apply(
    files: PostgresFileWriter, command: ChangeFiles, ids: Sequence[str], context: CommandContext
) -> list[tuple[str, Event]]:
    if command.operation == "delete":
        await files.delete(ids, context.message.correlation_id)
        return [(file_id, FileDeleted(file_id=file_id)) for file_id in ids]
    tags = None if command.tags is None else list(dict.fromkeys(command.tags))
    await files.change(ids, tags, command.status)
    changed = await files.lock(context.identity.company_id, ids)
    return [(file_id, FileUpdated(file=changed[file_id].public())) for file_id in ids]


def _result(file_id: str, exists: bool) -> FileResult:
    if exists:
        return FileResult(file_id=file_id, status="success")
    return FileResult(file_id=file_id, status="failed", error=FileNotFound().info())
