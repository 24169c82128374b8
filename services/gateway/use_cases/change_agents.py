"""Writes to stored agents."""

from typing import Any

import orjson

from libs.contracts.api.agents import CreateAgentBody, UpdateAgentBody
from libs.contracts.commands.registry import CreateAgent, DeleteAgent, UpdateAgent
from libs.contracts.errors import NotFound
from libs.contracts.identifiers import is_id
from libs.contracts.messages import Command
from libs.eventing import Received
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Write


class ChangeAgents:
    """The agent's id is the id of the command that created it, so that a repeated creation finds the same one."""

    def __init__(self, commands: CommandDispatcher) -> None:
        self._commands = commands

    async def create(self, write: Write, body: CreateAgentBody) -> bytes:
        async def make(command_id: str) -> Command:
            return CreateAgent(agent_id=command_id, agent=body.model_dump(mode="json", exclude_unset=True))

        return _agent(await self._commands.run(write, CreateAgent, make))

    async def update(self, write: Write, agent_id: str, body: UpdateAgentBody) -> bytes:
        async def make(_: str) -> Command:
            return UpdateAgent(agent_id=agent_id, changes=body.model_dump(mode="json", exclude_unset=True))

        _check(agent_id)
        return _agent(await self._commands.run(write, UpdateAgent, make, subject=agent_id))

    async def delete(self, write: Write, agent_id: str) -> None:
        async def make(_: str) -> Command:
            return DeleteAgent(agent_id=agent_id)

        _check(agent_id)
        await self._commands.run(write, DeleteAgent, make, subject=agent_id)


def _check(agent_id: str) -> None:
    if not is_id(agent_id):
        raise NotFound("There is no agent with this id.")


def _agent(received: Received) -> bytes:
    event: dict[str, Any] = orjson.loads(received.payload)
    return orjson.dumps(event["agent"])
