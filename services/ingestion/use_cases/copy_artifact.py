"""Makes a file of an artifact."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.contracts.api.file_names import safe_name
from libs.contracts.api.file_types import type_of
from libs.contracts.commands.ingestion import CopyArtifact
from libs.contracts.errors import ServiceUnavailable, StoreUnavailable
from libs.contracts.events.ingestion import FileUploaded
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from libs.objects import ObjectStore
from services.ingestion.domain.artifacts import ArtifactSource
from services.ingestion.domain.files import original_key
from services.ingestion.domain.ports.files import NewFile, Uploads, UploadWriter


@dataclass(frozen=True, slots=True)
class FetchArtifact:
    """Brings an artifact's bytes into the object store, before the transaction that makes a file of them."""

    uploads: Uploads
    store: ObjectStore
    source: ArtifactSource

    async def __call__(self, command: CopyArtifact, context: CommandContext) -> NewFile:
        """A file that is never stored is collected like any other upload.

        Raises ``NotFound``, ``UnsupportedMediaType`` and ``ServiceUnavailable``.
        """
        name = safe_name(command.name)
        kind = type_of(name)
        blob_id = await self.uploads.begin(context.identity.company_id)
        try:
            async with self.source.content(command.session_id, command.artifact_id, context.identity) as pieces:
                written = await self.store.put(original_key(blob_id), pieces)
        except BaseException as problem:
            await self.uploads.abandon([blob_id])
            if isinstance(problem, StoreUnavailable):
                # Whoever waits for the copy is told at once; a command that meets an outage would be retried.
                raise ServiceUnavailable("The object store does not answer.", retry_after=2) from problem
            raise
        return NewFile(
            id=command.file_id,
            blob_id=blob_id,
            name=name,
            content_type=kind.content_type,
            size=written.size,
            sha256=written.sha256,
        )


@dataclass(frozen=True, slots=True)
class StoreFetchedArtifact:
    files: Callable[[Transaction], UploadWriter]

    async def __call__(
        self, transaction: Transaction, command: CopyArtifact, context: CommandContext, file: NewFile
    ) -> None:
        caller = context.identity
        stored = await self.files(transaction).complete(caller.company_id, caller.user_id, [file])
        transaction.emit(FileUploaded(file=stored[0].public()), subject=command.file_id)
