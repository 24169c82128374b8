"""Creates files from session artifacts."""

from dataclasses import dataclass

from libs.blobs import Blobs, ReceivedFile, keep
from libs.contracts.errors import ServiceUnavailable, StoreUnavailable
from libs.contracts.file_names import safe_name
from libs.contracts.file_types import type_of
from libs.contracts.messages import CommandContext
from libs.contracts.resources.files import CopyArtifact, FileUploaded
from libs.eventing import Transaction
from libs.quotas import CompanyAmounts
from services.ingestion.adapters.internal_api import HttpArtifactSource
from services.ingestion.adapters.postgres.files import PostgresFileWriter


@dataclass(frozen=True, slots=True)
class CopyArtifacts:
    blobs: Blobs
    source: HttpArtifactSource
    amounts: CompanyAmounts

    async def fetch(self, command: CopyArtifact, context: CommandContext) -> ReceivedFile:
        """Copies an artifact's bytes into the object store.

        Raises ``NotFound``, ``UnsupportedMediaType`` and ``ServiceUnavailable``.
        """
        name, company_id = safe_name(command.name), context.identity.company_id
        kind = type_of(name)
        try:
            async with self.source.content(command.session_id, command.artifact_id, context.identity) as pieces:
                return await self.blobs.receive(company_id, name, kind.content_type, pieces)
        except StoreUnavailable as problem:
            # StoreUnavailable would retry the command, but the caller is waiting and should get the error immediately.
            raise ServiceUnavailable("The object store isn't responding. Try again later.", retry_after=2) from problem

    async def store(
        self, transaction: Transaction, command: CopyArtifact, context: CommandContext, file: ReceivedFile
    ) -> None:
        caller = context.identity
        [kept] = await keep(transaction.connection, caller.company_id, [file])
        files = PostgresFileWriter(transaction)
        [stored] = await files.add(caller.company_id, caller.user_id, {command.file_id: kept}, self.amounts)
        transaction.emit(FileUploaded(file=stored.public()), subject=command.file_id)
