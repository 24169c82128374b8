"""Create, change, ingest and delete knowledge bases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from libs.contracts.api.knowledge import CreateKnowledgeBaseBody, EmbeddingConfig, UpdateKnowledgeBaseBody
from libs.contracts.commands.ingestion import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    IngestKnowledgeBase,
    UpdateKnowledgeBase,
)
from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.events.ingestion import IngestionQueued, KnowledgeBaseCreated, KnowledgeBaseUpdated
from libs.contracts.identity import Identity
from services.ingestion.domain.knowledge_bases import (
    IndexSettings,
    KnowledgeBaseNotFound,
    KnowledgeBaseView,
    StoredKnowledgeBase,
)
from services.ingestion.domain.ports.knowledge_bases import KnowledgeBaseReader, KnowledgeBaseWriter
from services.ingestion.domain.runs import RunRef
from services.ingestion.use_cases.settings_resolver import SettingsResolver, parsed


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """``settings`` is None when the change leaves them."""

    body: UpdateKnowledgeBaseBody
    settings: IndexSettings | None


class KnowledgeBaseChange:
    def __init__(self, reader: KnowledgeBaseReader, settings: SettingsResolver, now: Callable[[], datetime]) -> None:
        self._reader = reader
        self._settings = settings
        self._now = now

    async def prepare_create(self, command: CreateKnowledgeBase) -> tuple[CreateKnowledgeBaseBody, IndexSettings]:
        """Raises ``ValidationFailed`` and ``ServiceUnavailable``."""
        body = parsed(CreateKnowledgeBaseBody, command.settings)
        settings = await self._settings.resolve(body.processing_engine, body.chunking_strategy, body.embedding_config)
        return body, settings

    async def create(
        self,
        bases: KnowledgeBaseWriter,
        command: CreateKnowledgeBase,
        prepared: tuple[CreateKnowledgeBaseBody, IndexSettings],
        caller: Identity,
        run: RunRef,
    ) -> KnowledgeBaseCreated:
        """Begins the ``run`` as well, unless the first ingestion is to come later. Raises ``ValidationFailed``."""
        body, settings = prepared
        await _require(bases, caller.company_id, body.collection_ids, body.file_ids)
        now = self._now()
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
            await bases.start_run(created, run)
        return KnowledgeBaseCreated(knowledge_base=(await _view(bases, created)).public())

    async def prepare_update(self, command: UpdateKnowledgeBase, caller: Identity) -> PreparedChange:
        """Raises ``KnowledgeBaseNotFound``, ``ValidationFailed`` and ``ServiceUnavailable``."""
        body = parsed(UpdateKnowledgeBaseBody, command.changes)
        stored = await self._reader.get(caller.company_id, command.knowledge_base_id)
        if stored is None:
            raise KnowledgeBaseNotFound()
        if not (body.processing_engine or body.chunking_strategy or body.embedding_config):
            return PreparedChange(body, None)
        before = stored.settings
        embedding = body.embedding_config or EmbeddingConfig.model_validate(before.embedding())
        settings = await self._settings.resolve(
            body.processing_engine or before.engine, body.chunking_strategy or before.chunking, embedding
        )
        return PreparedChange(body, settings)

    async def update(
        self, bases: KnowledgeBaseWriter, command: UpdateKnowledgeBase, prepared: PreparedChange, caller: Identity
    ) -> KnowledgeBaseUpdated:
        """Content and settings take effect with the next ingestion."""
        stored = await _locked(bases, caller, command.knowledge_base_id)
        body = prepared.body
        await _require(bases, caller.company_id, body.collection_ids or (), body.file_ids or ())
        changed = replace(
            stored,
            name=stored.name if body.name is None else body.name,
            description=stored.description if body.description is None else body.description,
            collection_ids=stored.collection_ids if body.collection_ids is None else _unique(body.collection_ids),
            file_ids=stored.file_ids if body.file_ids is None else _unique(body.file_ids),
            settings=prepared.settings or stored.settings,
            llm_config=stored.llm_config if body.llm_config is None else body.llm_config,
            updated_at=self._now(),
        )
        await bases.save(changed)
        return KnowledgeBaseUpdated(knowledge_base=(await _view(bases, changed)).public())


async def ingest_knowledge_base(
    bases: KnowledgeBaseWriter, command: IngestKnowledgeBase, caller: Identity, run: RunRef
) -> IngestionQueued:
    """Begin to ingest, or begin anew what goes on already. Raises ``KnowledgeBaseNotFound``."""
    stored = await _locked(bases, caller, command.knowledge_base_id)
    return await _queued(bases, stored, await bases.start_run(stored, run))


async def replace_index(bases: KnowledgeBaseWriter, index_id: str, run: RunRef) -> IngestionQueued | None:
    """Ingest into a fresh index, since the engine has lost this one; None when somebody has seen to that already."""
    stored = await bases.lock(run.company_id, run.knowledge_base_id)
    started = await bases.replace_index(stored, index_id, run) if stored else None
    return await _queued(bases, stored, started) if stored and started else None


async def _queued(bases: KnowledgeBaseWriter, stored: StoredKnowledgeBase, started: RunRef) -> IngestionQueued:
    if stored.status != "pending":
        await bases.set_status(stored.id, "running")
    view = await _view(bases, stored)
    return IngestionQueued(
        knowledge_base_id=stored.id,
        ingestion_id=started.id,
        total_datasources=len(view.sources),
        knowledge_base=view.public(),
    )


async def delete_knowledge_base(
    bases: KnowledgeBaseWriter, command: DeleteKnowledgeBase, caller: Identity, run: RunRef
) -> None:
    """It is gone for callers at once, and deleted when its indexes are dropped. Raises ``KnowledgeBaseNotFound``."""
    stored = await _locked(bases, caller, command.knowledge_base_id)
    await bases.begin_deletion(stored.id, run)


async def _locked(bases: KnowledgeBaseWriter, caller: Identity, knowledge_base_id: str) -> StoredKnowledgeBase:
    stored = await bases.lock(caller.company_id, knowledge_base_id)
    if stored is None:
        raise KnowledgeBaseNotFound()
    return stored


async def _view(bases: KnowledgeBaseWriter, stored: StoredKnowledgeBase) -> KnowledgeBaseView:
    view = await bases.view(stored.company_id, stored.id)
    assert view is not None
    return view


async def _require(
    bases: KnowledgeBaseWriter, company_id: str, collection_ids: Sequence[str], file_ids: Sequence[str]
) -> None:
    collections, files = await bases.missing(company_id, collection_ids, file_ids)
    details = [
        ErrorDetail(loc=[field, given.index(each)], type=f"{what}_unknown", message=f"there is no {what} '{each}'")
        for field, what, given, missing in (
            ("collection_ids", "collection", list(collection_ids), collections),
            ("file_ids", "file", list(file_ids), files),
        )
        for each in missing
    ]
    if details:
        raise ValidationFailed("Some of the collections or files do not exist.", details=details)


def _unique(ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))
