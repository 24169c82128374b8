"""Commands about files and collections: each ends in the event its use case returns, or in a rejection."""

from collections.abc import Callable
from dataclasses import replace

from libs.contracts.commands.ingestion import (
    AddCollectionFiles,
    ChangeFiles,
    CreateCollection,
    DeleteCollection,
    DeleteFile,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.eventing import CommandContext, CommandRouter, Transaction
from services.ingestion.domain.ports.files import CollectionWriter, FileWriter
from services.ingestion.use_cases.change_collections import CollectionChange
from services.ingestion.use_cases.change_files import change_files, delete_file


class FileCommands:
    def __init__(
        self,
        change: CollectionChange,
        files: Callable[[Transaction], FileWriter],
        collections: Callable[[Transaction], CollectionWriter],
    ) -> None:
        self._change = change
        self._files = files
        self._collections = collections

    def register(self, router: CommandRouter) -> None:
        router.handle(DeleteFile, self._delete_file)
        router.handle(ChangeFiles, self._change_files)
        router.handle(CreateCollection, self._create)
        router.handle(UpdateCollection, self._update)
        router.handle(DeleteCollection, self._delete)
        router.handle(AddCollectionFiles, self._add)
        router.handle(RemoveCollectionFile, self._remove)

    async def _delete_file(self, transaction: Transaction, command: DeleteFile, context: CommandContext) -> None:
        label = context.message.correlation_id
        deleted = await delete_file(self._files(transaction), command, context.identity, label)
        transaction.emit(deleted, subject=command.file_id)

    async def _change_files(self, transaction: Transaction, command: ChangeFiles, context: CommandContext) -> None:
        label = context.message.correlation_id
        outcome, happened = await change_files(self._files(transaction), command, context.identity, label)
        # Without a cause: these events end commands of their own, and a command has one end.
        aside = replace(context.message, causation_id=None)
        for file_id, event in happened:
            transaction.emit(event, subject=file_id, context=aside)
        transaction.emit(outcome, subject=context.command_id)

    async def _create(self, transaction: Transaction, command: CreateCollection, context: CommandContext) -> None:
        label = context.message.correlation_id
        created = await self._change.create(self._collections(transaction), command, context.identity, label)
        transaction.emit(created, subject=command.collection_id)

    async def _update(self, transaction: Transaction, command: UpdateCollection, context: CommandContext) -> None:
        updated = await self._change.update(self._collections(transaction), command, context.identity)
        transaction.emit(updated, subject=command.collection_id)

    async def _delete(self, transaction: Transaction, command: DeleteCollection, context: CommandContext) -> None:
        deleted = await self._change.delete(self._collections(transaction), command, context.identity)
        transaction.emit(deleted, subject=command.collection_id)

    async def _add(self, transaction: Transaction, command: AddCollectionFiles, context: CommandContext) -> None:
        added = await self._change.add_files(
            self._files(transaction),
            self._collections(transaction),
            command,
            context.identity,
            context.message.correlation_id,
        )
        transaction.emit(added, subject=command.collection_id)

    async def _remove(self, transaction: Transaction, command: RemoveCollectionFile, context: CommandContext) -> None:
        removed = await self._change.remove_file(
            self._collections(transaction), command, context.identity, context.message.correlation_id
        )
        transaction.emit(removed, subject=command.collection_id)
