"""Creates, edits and deletes collections, and adds and removes their files."""

from datetime import UTC, datetime

from libs.contracts.errors import InvalidRequest
from libs.contracts.identifiers import is_id
from libs.contracts.messages import CommandContext
from libs.contracts.resources.collections import (
    AddCollectionFiles,
    CollectionCreated,
    CollectionDeleted,
    CollectionFileRemoved,
    CollectionFilesAdded,
    CollectionFilesReply,
    CollectionUpdated,
    CreateCollection,
    DeleteCollection,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.contracts.resources.files import FileResult
from libs.eventing import Transaction
from services.ingestion.adapters.postgres.collections import PostgresCollectionWriter
from services.ingestion.adapters.postgres.files import PostgresFileWriter
from services.ingestion.domain.collections import StoredCollection
from services.ingestion.domain.files import FileNotFound


class Collections:
    async def create(self, transaction: Transaction, command: CreateCollection, context: CommandContext) -> None:
        """Creates a collection. Raises ``InvalidRequest``."""
        if not is_id(command.collection_id):
            raise InvalidRequest("Invalid collection_id. Use a UUID.")
        now, caller = datetime.now(UTC), context.identity
        collection = StoredCollection(
            id=command.collection_id,
            company_id=caller.company_id,
            name=command.name,
            description=command.description,
            created_at=now,
            updated_at=now,
        )
        await PostgresCollectionWriter(transaction).add(collection, caller.user_id, context.message.correlation_id)
        transaction.emit(CollectionCreated(collection=collection.public()), subject=collection.id)

    async def update(self, transaction: Transaction, command: UpdateCollection, context: CommandContext) -> None:
        """Changes a collection's name or description. Raises ``CollectionNotFound``."""
        collections = PostgresCollectionWriter(transaction)
        await collections.lock(context.identity.company_id, command.collection_id)
        await collections.describe(command.collection_id, command.name, command.description)
        after = await collections.lock(context.identity.company_id, command.collection_id)
        transaction.emit(CollectionUpdated(collection=after.public()), subject=command.collection_id)

    async def delete(self, transaction: Transaction, command: DeleteCollection, context: CommandContext) -> None:
        """Deletes a collection, but not its files. Raises ``CollectionNotFound``."""
        collections = PostgresCollectionWriter(transaction)
        await collections.lock(context.identity.company_id, command.collection_id)
        await collections.delete(command.collection_id)
        transaction.emit(CollectionDeleted(collection_id=command.collection_id), subject=command.collection_id)

    async def add_files(self, transaction: Transaction, command: AddCollectionFiles, context: CommandContext) -> None:
        """Adds files to a collection. Raises ``CollectionNotFound``.

        Files that the collection already contains count as neither added nor failed.
        """
        collections, requested = PostgresCollectionWriter(transaction), list(dict.fromkeys(command.file_ids))
        existing = await PostgresFileWriter(transaction).lock(context.identity.company_id, requested)
        await collections.lock(context.identity.company_id, command.collection_id)
        added = await collections.add_files(command.collection_id, list(existing), context.message.correlation_id)
        results = [_result(file_id, file_id in existing, file_id in added) for file_id in requested]
        reply = CollectionFilesReply(
            success=bool(existing), added=len(added), failed=len(requested) - len(existing), results=results
        )
        event = CollectionFilesAdded(collection_id=command.collection_id, reply=reply)
        transaction.emit(event, subject=command.collection_id)

    async def remove_file(
        self, transaction: Transaction, command: RemoveCollectionFile, context: CommandContext
    ) -> None:
        """Removes a file from a collection. Raises ``CollectionNotFound`` and ``FileNotFound``."""
        collections = PostgresCollectionWriter(transaction)
        await collections.lock(context.identity.company_id, command.collection_id)
        correlation_id = context.message.correlation_id
        if not await collections.remove_file(command.collection_id, command.file_id, correlation_id):
            raise FileNotFound()
        removed = CollectionFileRemoved(collection_id=command.collection_id, file_id=command.file_id)
        transaction.emit(removed, subject=command.collection_id)


def _result(file_id: str, exists: bool, is_new: bool) -> FileResult:
    if not exists:
        return FileResult(file_id=file_id, status="failed", error=FileNotFound().info())
    return FileResult(file_id=file_id, status="added" if is_new else "already_added")
