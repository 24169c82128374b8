"""Change and delete files, one or many at a time."""

from collections.abc import Sequence
from typing import Final, get_args

from libs.contracts.api.files import BulkOperation, BulkReply, FileResult, FileStatus
from libs.contracts.commands.ingestion import ChangeFiles, DeleteFile
from libs.contracts.errors import ValidationFailed
from libs.contracts.events.ingestion import FileDeleted, FilesChanged, FileUpdated
from libs.contracts.identity import Identity
from libs.contracts.messages import Event
from services.ingestion.domain.files import FileNotFound
from services.ingestion.domain.ports.files import FileWriter

_OPERATIONS: Final = get_args(BulkOperation)
_STATUSES: Final = get_args(FileStatus)
Told = tuple[str, Event]
"""An event and the file that it is about."""


async def delete_file(files: FileWriter, command: DeleteFile, caller: Identity, correlation_id: str) -> FileDeleted:
    """Raises ``FileNotFound``."""
    if not await files.lock(caller.company_id, [command.file_id]):
        raise FileNotFound()
    await files.delete([command.file_id], correlation_id)
    return FileDeleted(file_id=command.file_id)


async def change_files(
    files: FileWriter, command: ChangeFiles, caller: Identity, correlation_id: str
) -> tuple[FilesChanged, list[Told]]:
    """The outcome, and what happened to each file that exists. Raises ``ValidationFailed``."""
    _check(command)
    asked = list(dict.fromkeys(command.file_ids))
    there = await files.lock(caller.company_id, asked)
    ids = [file_id for file_id in asked if file_id in there]
    happened = await _apply(files, command, ids, caller, correlation_id)
    results = [_result(file_id, file_id in there) for file_id in asked]
    reply = BulkReply(success=bool(ids), processed=len(ids), failed=len(asked) - len(ids), results=results)
    return FilesChanged(operation=command.operation, reply=reply), happened


async def _apply(
    files: FileWriter, command: ChangeFiles, ids: Sequence[str], caller: Identity, correlation_id: str
) -> list[Told]:
    if command.operation == "delete":
        await files.delete(ids, correlation_id)
        return [(file_id, FileDeleted(file_id=file_id)) for file_id in ids]
    if command.operation == "update_tags":
        await files.set_tags(ids, list(dict.fromkeys(command.tags or [])))
    else:
        await files.set_status(ids, "active" if command.status == "active" else "inactive")
    now = await files.lock(caller.company_id, ids)
    return [(file_id, FileUpdated(file=now[file_id].public())) for file_id in ids]


def _check(command: ChangeFiles) -> None:
    if command.operation not in _OPERATIONS:
        raise ValidationFailed(f"There is no operation '{command.operation}'.")
    if command.operation == "update_tags" and command.tags is None:
        raise ValidationFailed("update_tags needs tags.")
    if command.operation == "change_status" and command.status not in _STATUSES:
        raise ValidationFailed("change_status needs a status: active or inactive.")


def _result(file_id: str, exists: bool) -> FileResult:
    if exists:
        return FileResult(file_id=file_id, status="success")
    return FileResult(file_id=file_id, status="failed", error=FileNotFound().info())
