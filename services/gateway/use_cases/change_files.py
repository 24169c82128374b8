"""Writes to files and collections."""

from typing import Any

import orjson

from libs.contracts.api.files import BulkBody, CollectionFilesBody, CreateCollectionBody, UpdateCollectionBody
from libs.contracts.commands.ingestion import (
    AddCollectionFiles,
    ChangeFiles,
    CreateCollection,
    DeleteCollection,
    DeleteFile,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.contracts.errors import NotFound
from libs.contracts.identifiers import is_id
from libs.contracts.messages import Command
from libs.eventing import Received
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Write


class ChangeFilesAndCollections:
    """A collection's id is that of the command that created it, so that a repeated creation finds the same one."""

    def __init__(self, commands: CommandDispatcher) -> None:
        self._commands = commands

    async def delete_file(self, write: Write, file_id: str) -> None:
        async def make(_: str) -> Command:
            return DeleteFile(file_id=file_id)

        _check(file_id, "file")
        await self._commands.run(write, DeleteFile, make, subject=file_id)

    async def bulk(self, write: Write, body: BulkBody) -> bytes:
        async def make(_: str) -> Command:
            parameters = body.parameters
            return ChangeFiles(
                operation=body.operation, file_ids=body.file_ids, tags=parameters.tags, status=parameters.status
            )

        return _part(await self._commands.run(write, ChangeFiles, make), "reply")

    async def create_collection(self, write: Write, body: CreateCollectionBody) -> bytes:
        async def make(command_id: str) -> Command:
            return CreateCollection(collection_id=command_id, name=body.name, description=body.description)

        return _part(await self._commands.run(write, CreateCollection, make), "collection")

    async def update_collection(self, write: Write, collection_id: str, body: UpdateCollectionBody) -> bytes:
        async def make(_: str) -> Command:
            return UpdateCollection(collection_id=collection_id, name=body.name, description=body.description)

        _check(collection_id, "collection")
        return _part(await self._commands.run(write, UpdateCollection, make, subject=collection_id), "collection")

    async def delete_collection(self, write: Write, collection_id: str) -> None:
        async def make(_: str) -> Command:
            return DeleteCollection(collection_id=collection_id)

        _check(collection_id, "collection")
        await self._commands.run(write, DeleteCollection, make, subject=collection_id)

    async def add_files(self, write: Write, collection_id: str, body: CollectionFilesBody) -> bytes:
        async def make(_: str) -> Command:
            return AddCollectionFiles(collection_id=collection_id, file_ids=body.file_ids)

        _check(collection_id, "collection")
        return _part(await self._commands.run(write, AddCollectionFiles, make, subject=collection_id), "reply")

    async def remove_file(self, write: Write, collection_id: str, file_id: str) -> None:
        async def make(_: str) -> Command:
            return RemoveCollectionFile(collection_id=collection_id, file_id=file_id)

        _check(collection_id, "collection")
        _check(file_id, "file")
        await self._commands.run(write, RemoveCollectionFile, make, subject=collection_id)


def _check(value: str, thing: str) -> None:
    if not is_id(value):
        raise NotFound(f"There is no {thing} with this id.")


def _part(received: Received, name: str) -> bytes:
    event: dict[str, Any] = orjson.loads(received.payload)
    return orjson.dumps(_without_empty_errors(event[name]))


def _without_empty_errors(part: dict[str, Any]) -> dict[str, Any]:
    """Results of single files name an error only where there is one."""
    for result in part.get("results", ()):
        error = result.pop("error", None)
        if error is not None:
            result["error"] = {name: value for name, value in error.items() if value is not None}
    return part
