"""Commands about knowledge bases on ``ingestion-commands``."""

from collections.abc import Callable

from libs.contracts.api.knowledge import CreateKnowledgeBaseBody
from libs.contracts.commands.ingestion import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    IngestKnowledgeBase,
    UpdateKnowledgeBase,
)
from libs.contracts.identifiers import new_id
from libs.eventing import CommandContext, CommandRouter, Transaction
from services.ingestion.domain.knowledge_bases import IndexSettings
from services.ingestion.domain.ports.knowledge_bases import KnowledgeBaseWriter
from services.ingestion.domain.runs import RunRef
from services.ingestion.use_cases.change_knowledge_bases import (
    KnowledgeBaseChange,
    PreparedChange,
    delete_knowledge_base,
    ingest_knowledge_base,
)

_Creation = tuple[CreateKnowledgeBaseBody, IndexSettings]


class KnowledgeCommands:
    def __init__(self, change: KnowledgeBaseChange, writer: Callable[[Transaction], KnowledgeBaseWriter]) -> None:
        self._change = change
        self._writer = writer

    def register(self, router: CommandRouter) -> None:
        router.handle_prepared(CreateKnowledgeBase, self._prepare_create, self._create)
        router.handle_prepared(UpdateKnowledgeBase, self._prepare_update, self._update)
        router.handle(IngestKnowledgeBase, self._ingest)
        router.handle(DeleteKnowledgeBase, self._delete, ends_later=True)

    async def _prepare_create(self, command: CreateKnowledgeBase, _: CommandContext) -> _Creation:
        return await self._change.prepare_create(command)

    async def _create(
        self, transaction: Transaction, command: CreateKnowledgeBase, context: CommandContext, prepared: _Creation
    ) -> None:
        run = _run(command.knowledge_base_id, context)
        created = await self._change.create(self._writer(transaction), command, prepared, context.identity, run)
        transaction.emit(created, subject=command.knowledge_base_id)

    async def _prepare_update(self, command: UpdateKnowledgeBase, context: CommandContext) -> PreparedChange:
        return await self._change.prepare_update(command, context.identity)

    async def _update(
        self, transaction: Transaction, command: UpdateKnowledgeBase, context: CommandContext, change: PreparedChange
    ) -> None:
        updated = await self._change.update(self._writer(transaction), command, change, context.identity)
        transaction.emit(updated, subject=command.knowledge_base_id)

    async def _ingest(self, transaction: Transaction, command: IngestKnowledgeBase, context: CommandContext) -> None:
        run = _run(command.knowledge_base_id, context)
        queued = await ingest_knowledge_base(self._writer(transaction), command, context.identity, run)
        transaction.emit(queued, subject=command.knowledge_base_id)

    async def _delete(self, transaction: Transaction, command: DeleteKnowledgeBase, context: CommandContext) -> None:
        run = _run(command.knowledge_base_id, context)
        await delete_knowledge_base(self._writer(transaction), command, context.identity, run)


def _run(knowledge_base_id: str, context: CommandContext) -> RunRef:
    """A run of its own, whose index, should it need a new one, has the run's id."""
    message, run_id = context.message, new_id()
    return RunRef(
        run_id, knowledge_base_id, message.company_id, run_id, message.correlation_id, message.causation_id,
        message.traceparent,
    )  # fmt: skip
