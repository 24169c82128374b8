"""Creates, edits, ingests and deletes knowledge bases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandContext
from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    EmbeddingConfig,
    IngestionQueued,
    IngestKnowledgeBase,
    KnowledgeBaseCreated,
    KnowledgeBaseUpdated,
    UpdateKnowledgeBase,
)
from libs.eventing import Transaction
from services.ingestion.adapters.postgres.knowledge_base_writer import PostgresKnowledgeBaseWriter
from services.ingestion.adapters.postgres.knowledge_bases import PostgresKnowledgeBaseReader
from services.ingestion.domain.knowledge_bases import (
    IndexSettings,
    KnowledgeBaseNotFound,
    StoredKnowledgeBase,
)
from services.ingestion.domain.runs import RunRef
from services.ingestion.use_cases.settings_resolver import SettingsResolver

_MOST_FILES: Final = 1000


@dataclass(frozen=True, slots=True)
class KnowledgeBases:
    """Changes knowledge bases.

    Settings are resolved before the transaction, because this may require a call to the embedding provider.
    """

    reader: PostgresKnowledgeBaseReader
    resolver: SettingsResolver

    async def check_new(self, command: CreateKnowledgeBase, _: CommandContext) -> IndexSettings:
        """Validates a new knowledge base. Raises ``ValidationFailed`` and ``ServiceUnavailable``."""
        body = command.settings
        return await self.resolver.resolve(body.processing_engine, body.chunking_strategy, body.embedding_config)

    async def create(
        self, transaction: Transaction, command: CreateKnowledgeBase, context: CommandContext, settings: IndexSettings
    ) -> None:
        """Adds a knowledge base and starts its first run, if requested. Raises ``ValidationFailed`` or ``Conflict``."""
        bases, caller, now = PostgresKnowledgeBaseWriter(transaction), context.identity, datetime.now(UTC)
        body = command.settings
        await _require(bases, caller.company_id, body.collection_ids, body.file_ids)
        created = StoredKnowledgeBase(
            id=command.knowledge_base_id,
            company_id=caller.company_id,
            name=body.name,
            description=body.description,
            collection_ids=_unique(body.collection_ids),
            file_ids=_unique(body.file_ids),
            settings=settings,
            llm_config=body.llm_config,
            created_by=caller.user_id,
            created_by_name=caller.user_name,
            company_name=caller.company_name,
            created_at=now,
            updated_at=now,
        )
        await bases.add(created)
        if body.ingest:
            await bases.start_run(created, _new_run(created.id, context))
        event = KnowledgeBaseCreated(knowledge_base=(await bases.view(created.company_id, created.id)).public())
        transaction.emit(event, subject=created.id)

    async def check_change(self, command: UpdateKnowledgeBase, context: CommandContext) -> IndexSettings | None:
        """Validates a change. Returns the new settings, or None if the current settings are kept.

        Raises ``KnowledgeBaseNotFound``, ``ValidationFailed`` and ``ServiceUnavailable``.
        """
        body = command.changes
        stored = await self.reader.get(context.identity.company_id, command.knowledge_base_id)
        if not (body.processing_engine or body.chunking_strategy or body.embedding_config):
            return None
        before = stored.settings
        embedding = body.embedding_config or EmbeddingConfig.model_validate(before.embedding())
        return await self.resolver.resolve(
            body.processing_engine or before.engine, body.chunking_strategy or before.chunking, embedding
        )

    async def update(
        self,
        transaction: Transaction,
        command: UpdateKnowledgeBase,
        context: CommandContext,
        settings: IndexSettings | None,
    ) -> None:
        """Changes a knowledge base. New content and settings take effect with the next ingestion.

        Raises ``KnowledgeBaseNotFound`` and ``ValidationFailed``.
        """
        bases, body = PostgresKnowledgeBaseWriter(transaction), command.changes
        stored = await bases.lock(context.identity.company_id, command.knowledge_base_id)
        files = [*(body.file_ids or ()), *command.add_file_ids]
        await _require(bases, stored.company_id, body.collection_ids or (), files)
        changed = replace(
            stored,
            name=stored.name if body.name is None else body.name,
            description=stored.description if body.description is None else body.description,
            collection_ids=stored.collection_ids if body.collection_ids is None else _unique(body.collection_ids),
            file_ids=_files(stored.file_ids if body.file_ids is None else body.file_ids, command),
            settings=settings or stored.settings,
            llm_config=stored.llm_config if body.llm_config is None else body.llm_config,
            updated_at=datetime.now(UTC),
        )
        await bases.save(changed)
        if command.ingest:
            await bases.start_run(changed, _new_run(changed.id, context))
            await bases.set_running(stored)
        event = KnowledgeBaseUpdated(knowledge_base=(await bases.view(changed.company_id, changed.id)).public())
        transaction.emit(event, subject=changed.id)

    async def ingest(self, transaction: Transaction, command: IngestKnowledgeBase, context: CommandContext) -> None:
        """Starts a run, or restarts the active run. Raises ``KnowledgeBaseNotFound``."""
        bases = PostgresKnowledgeBaseWriter(transaction)
        stored = await bases.lock(context.identity.company_id, command.knowledge_base_id)
        started = await bases.start_run(stored, _new_run(stored.id, context))
        transaction.emit(await _queued(bases, stored, started), subject=stored.id)

    async def delete(self, transaction: Transaction, command: DeleteKnowledgeBase, context: CommandContext) -> None:
        """Hides a knowledge base immediately. The outcome follows once the knowledge base's indexes are dropped.

        Raises ``KnowledgeBaseNotFound``.
        """
        bases = PostgresKnowledgeBaseWriter(transaction)
        stored = await bases.lock(context.identity.company_id, command.knowledge_base_id)
        await bases.begin_deletion(stored.id, _new_run(stored.id, context))


async def replace_index(bases: PostgresKnowledgeBaseWriter, index_id: str, run: RunRef) -> IngestionQueued | None:
    """Starts a run that builds a replacement for a lost index. Returns None if the index is no longer in use."""
    try:
        stored = await bases.lock(run.company_id, run.knowledge_base_id)
    except KnowledgeBaseNotFound:
        return None
    started = await bases.replace_index(stored, index_id, run)
    return await _queued(bases, stored, started) if started else None


async def _queued(bases: PostgresKnowledgeBaseWriter, stored: StoredKnowledgeBase, started: RunRef) -> IngestionQueued:
    await bases.set_running(stored)
    view = await bases.view(stored.company_id, stored.id)
    return IngestionQueued(
        knowledge_base_id=stored.id,
        ingestion_id=started.id,
        total_datasources=len(view.sources),
        knowledge_base=view.public(),
    )


def _new_run(knowledge_base_id: str, context: CommandContext) -> RunRef:
    """Creates a run. If it needs a new index, the index gets the run's ID."""
    message, run_id = context.message, new_id()
    return RunRef(
        run_id, knowledge_base_id, message.company_id, run_id, message.correlation_id, message.causation_id,
        message.traceparent,
    )  # fmt: skip


async def _require(
    bases: PostgresKnowledgeBaseWriter, company_id: str, collection_ids: Sequence[str], file_ids: Sequence[str]
) -> None:
    collections, files = await bases.missing(company_id, collection_ids, file_ids)
    details = [
        ErrorDetail(
            loc=[field, given.index(each)], type=f"{what}_unknown", message=f"the {what} '{each}' doesn't exist"
        )
        for field, what, given, missing in (
            ("collection_ids", "collection", list(collection_ids), collections),
            ("file_ids", "file", list(file_ids), files),
        )
        for each in missing
    ]
    if details:
        raise ValidationFailed("Some of the collections or files don't exist.", details=details)


def _files(file_ids: Sequence[str], command: UpdateKnowledgeBase) -> tuple[str, ...]:
    """Returns the knowledge base's files as changed by the command, without duplicates.

    Raises ``ValidationFailed`` if there are too many.
    """
    left_out = set(command.remove_file_ids)
    kept = _unique([each for each in (*file_ids, *command.add_file_ids) if each not in left_out])
    if len(kept) > _MOST_FILES:
        message = f"A knowledge base can have at most {_MOST_FILES} files in addition to its collections."
        raise ValidationFailed(message, details=[ErrorDetail(loc=["file_ids"], type="too_long", message=message)])
    return kept


def _unique(ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))
