"""Writes to knowledge bases."""

from typing import Any

import orjson

from libs.contracts.api.knowledge import CreateKnowledgeBaseBody, UpdateKnowledgeBaseBody
from libs.contracts.commands.ingestion import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    IngestKnowledgeBase,
    UpdateKnowledgeBase,
)
from libs.contracts.errors import NotFound
from libs.contracts.identifiers import is_id
from libs.contracts.messages import Command
from libs.eventing import Received
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Write


class ChangeKnowledgeBases:
    """A knowledge base's id is that of the command that created it: a repeated creation finds the same one."""

    def __init__(self, commands: CommandDispatcher) -> None:
        self._commands = commands

    async def create(self, write: Write, body: CreateKnowledgeBaseBody) -> bytes:
        async def make(command_id: str) -> Command:
            settings = body.model_dump(mode="json", exclude_unset=True)
            return CreateKnowledgeBase(knowledge_base_id=command_id, settings=settings)

        return _knowledge_base(await self._commands.run(write, CreateKnowledgeBase, make))

    async def update(self, write: Write, knowledge_base_id: str, body: UpdateKnowledgeBaseBody) -> bytes:
        async def make(_: str) -> Command:
            changes = body.model_dump(mode="json", exclude_unset=True)
            return UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes=changes)

        _check(knowledge_base_id)
        received = await self._commands.run(write, UpdateKnowledgeBase, make, subject=knowledge_base_id)
        return _knowledge_base(received)

    async def delete(self, write: Write, knowledge_base_id: str) -> None:
        async def make(_: str) -> Command:
            return DeleteKnowledgeBase(knowledge_base_id=knowledge_base_id)

        _check(knowledge_base_id)
        await self._commands.run(write, DeleteKnowledgeBase, make, subject=knowledge_base_id)

    async def ingest(self, write: Write, knowledge_base_id: str) -> None:
        """Returns when the ingestion is taken up; it goes on in the background."""

        async def make(_: str) -> Command:
            return IngestKnowledgeBase(knowledge_base_id=knowledge_base_id)

        _check(knowledge_base_id)
        await self._commands.run(write, IngestKnowledgeBase, make, subject=knowledge_base_id)


def _check(knowledge_base_id: str) -> None:
    if not is_id(knowledge_base_id):
        raise NotFound("There is no knowledge base with this id.")


def _knowledge_base(received: Received) -> bytes:
    event: dict[str, Any] = orjson.loads(received.payload)
    return orjson.dumps(event["knowledge_base"])
