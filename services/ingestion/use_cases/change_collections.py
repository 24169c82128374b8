"""Make, describe, fill and delete collections. Deleting one leaves its files."""

from collections.abc import Callable
from datetime import datetime

from libs.contracts.api.files import CollectionFilesReply, FileResult
from libs.contracts.commands.ingestion import (
    AddCollectionFiles,
    CreateCollection,
    DeleteCollection,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.contracts.errors import InvalidRequest, ValidationFailed
from libs.contracts.events.ingestion import (
    CollectionCreated,
    CollectionDeleted,
    CollectionFileRemoved,
    CollectionFilesAdded,
    CollectionUpdated,
)
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from services.ingestion.domain.collections import CollectionNotFound, StoredCollection
from services.ingestion.domain.files import FileNotFound
from services.ingestion.domain.ports.files import CollectionWriter, FileWriter


class CollectionChange:
    """Every method works inside one transaction of the caller's and returns what happened in it."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    async def create(
        self, collections: CollectionWriter, command: CreateCollection, caller: Identity, correlation_id: str
    ) -> CollectionCreated:
        if not is_id(command.collection_id):
            raise InvalidRequest("collection_id is not an id")
        now = self._now()
        collection = StoredCollection(
            id=command.collection_id,
            company_id=caller.company_id,
            name=_named(command.name),
            description=command.description,
            created_at=now,
            updated_at=now,
        )
        await collections.add(collection, caller.user_id, correlation_id)
        return CollectionCreated(collection=collection.public())

    async def update(
        self, collections: CollectionWriter, command: UpdateCollection, caller: Identity
    ) -> CollectionUpdated:
        before = await _locked(collections, command.collection_id, caller)
        name = before.name if command.name is None else _named(command.name)
        description = before.description if command.description is None else command.description
        await collections.describe(command.collection_id, name, description)
        after = await _locked(collections, command.collection_id, caller)
        return CollectionUpdated(collection=after.public())

    async def delete(
        self, collections: CollectionWriter, command: DeleteCollection, caller: Identity
    ) -> CollectionDeleted:
        await _locked(collections, command.collection_id, caller)
        await collections.delete(command.collection_id)
        return CollectionDeleted(collection_id=command.collection_id)

    async def add_files(
        self,
        files: FileWriter,
        collections: CollectionWriter,
        command: AddCollectionFiles,
        caller: Identity,
        correlation_id: str,
    ) -> CollectionFilesAdded:
        """Files that are in it already stay in it: they are neither added nor failed."""
        asked = list(dict.fromkeys(command.file_ids))
        there = await files.lock(caller.company_id, asked)
        await _locked(collections, command.collection_id, caller)
        added = await collections.add_files(command.collection_id, list(there), correlation_id)
        results = [_result(file_id, file_id in there, file_id in added) for file_id in asked]
        reply = CollectionFilesReply(
            success=bool(there), added=len(added), failed=len(asked) - len(there), results=results
        )
        return CollectionFilesAdded(collection_id=command.collection_id, reply=reply)

    async def remove_file(
        self, collections: CollectionWriter, command: RemoveCollectionFile, caller: Identity, correlation_id: str
    ) -> CollectionFileRemoved:
        await _locked(collections, command.collection_id, caller)
        if not await collections.remove_file(command.collection_id, command.file_id, correlation_id):
            raise FileNotFound()
        return CollectionFileRemoved(collection_id=command.collection_id, file_id=command.file_id)


async def _locked(collections: CollectionWriter, collection_id: str, caller: Identity) -> StoredCollection:
    collection = await collections.lock(caller.company_id, collection_id)
    if collection is None:
        raise CollectionNotFound()
    return collection


def _named(name: str) -> str:
    if not name.strip():
        raise ValidationFailed("A collection needs a name.")
    return name


def _result(file_id: str, exists: bool, is_new: bool) -> FileResult:
    if not exists:
        return FileResult(file_id=file_id, status="failed", error=FileNotFound().info())
    return FileResult(file_id=file_id, status="added" if is_new else "already_added")
