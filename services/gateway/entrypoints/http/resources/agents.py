"""``/agent/…``: stored agents and the validation of configurations."""

import re
from typing import Any, Final

import orjson
from pydantic import TypeAdapter

from libs.contracts.api.agents import (
    Agent,
    AgentConfiguration,
    AgentVersion,
    CreateAgentBody,
    UpdateAgentBody,
    ValidationReport,
)
from libs.contracts.commands.registry import CreateAgent, DeleteAgent, UpdateAgent
from libs.contracts.errors import NotFound
from libs.contracts.identity import Scope
from services.gateway.domain.outcomes import entity_in
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.forwarding import Forwarding, id_in
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Body, Operation
from services.gateway.entrypoints.http.schemas import AgentVersionPage
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher

_VERSION: Final = re.compile(r"\d{1,9}(\.\d{1,9}){0,4}", re.ASCII)
_TAG: Final = "Agents"
_DRAFT: Final[TypeAdapter[Any]] = TypeAdapter(AgentConfiguration | dict[str, Any])
"""Validation is there for configurations that are not right yet."""


class Agents:
    def __init__(self, commands: CommandDispatcher, forward: Forwarding) -> None:
        self._commands = commands
        self._forward = forward

    async def list(self, request: Request) -> Reply:
        return await self._forward.get(request, "registry", "/internal/agents")

    async def get(self, request: Request) -> Reply:
        agent_id = id_in(request, "id", "agent")
        return await self._forward.get(request, "registry", f"/internal/agents/{agent_id}")

    async def versions(self, request: Request) -> Reply:
        agent_id = id_in(request, "id", "agent")
        return await self._forward.page(request, "registry", f"/internal/agents/{agent_id}/versions")

    async def version(self, request: Request) -> Reply:
        agent_id = id_in(request, "id", "agent")
        version = request.parameters["version"]
        if not _VERSION.fullmatch(version):
            raise NotFound("The agent has no such version.")
        return await self._forward.get(request, "registry", f"/internal/agents/{agent_id}/versions/{version}")

    async def validate(self, request: Request) -> Reply:
        body = orjson.dumps(request.body)
        return await self._forward.post(request, "registry", "/internal/agents/validate", body)

    async def create(self, request: Request) -> Reply:
        configuration = _fields(request.body)
        created = await self._commands.create(
            request.write(), CreateAgent, lambda agent_id: CreateAgent(agent_id=agent_id, agent=configuration)
        )
        agent = entity_in(created, "agent")
        location = f"/api/v1/agent/{orjson.loads(agent)['id']}/"
        return Reply(201, agent, [(b"location", location.encode())])

    async def update(self, request: Request) -> Reply:
        agent_id = id_in(request, "id", "agent")
        command = UpdateAgent(agent_id=agent_id, changes=_fields(request.body))
        return Reply(200, entity_in(await self._commands.run(request.write(), command, subject=agent_id), "agent"))

    async def delete(self, request: Request) -> Reply:
        agent_id = id_in(request, "id", "agent")
        await self._commands.run(request.write(), DeleteAgent(agent_id=agent_id), subject=agent_id)
        return Reply(204)

    def operations(self) -> tuple[Operation, ...]:
        return (*self._reads(), *self._writes())

    def _reads(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/agent/validate/",
                name="validate_agent",
                summary="Check an agent configuration",
                description="Says what is wrong with a configuration and what is doubtful. Nothing is stored.",
                tag=_TAG,
                handler=self.validate,
                scope=Scope.AGENTS_READ,
                body=Body(schema=_DRAFT, examples=examples.CONFIGURATIONS),
                answers={200: Answer(description="What was found.", model=ValidationReport)},
                errors=(400, 413, 415, 422),
            ),
            Operation(
                method="GET",
                path="/agent/",
                name="list_agents",
                summary="List the agents that you may use",
                tag=_TAG,
                handler=self.list,
                scope=Scope.AGENTS_READ,
                answers={200: Answer(description="Stored agents.", model=TypeAdapter(list[Agent]))},
            ),
            Operation(
                method="GET",
                path="/agent/{id}/",
                name="get_agent",
                summary="Get an agent",
                tag=_TAG,
                handler=self.get,
                scope=Scope.AGENTS_READ,
                answers={200: Answer(description="The agent.", model=Agent)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path="/agent/{id}/versions/",
                name="list_agent_versions",
                summary="List the versions of an agent",
                description="A version is made whenever the configuration changes; it never changes itself.",
                tag=_TAG,
                handler=self.versions,
                scope=Scope.AGENTS_READ,
                paged=True,
                answers={200: Answer(description="Versions, newest first.", model=AgentVersionPage)},
                errors=(404, 422),
            ),
            Operation(
                method="GET",
                path="/agent/{id}/versions/{version}/",
                name="get_agent_version",
                summary="Get one version of an agent",
                tag=_TAG,
                handler=self.version,
                scope=Scope.AGENTS_READ,
                answers={200: Answer(description="The version.", model=AgentVersion)},
                errors=(404,),
            ),
        )

    def _writes(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/agent/",
                name="create_agent",
                summary="Store an agent",
                tag=_TAG,
                handler=self.create,
                scope=Scope.AGENTS_WRITE,
                writes=True,
                body=Body(model=CreateAgentBody, examples=examples.CONFIGURATIONS),
                answers={201: Answer(description="The stored agent.", model=Agent, headers=("Location",))},
            ),
            Operation(
                method="PATCH",
                path="/agent/{id}/",
                name="update_agent",
                summary="Change an agent",
                description="Fields left out stay as they are. A changed configuration becomes a new version.",
                tag=_TAG,
                handler=self.update,
                scope=Scope.AGENTS_WRITE,
                writes=True,
                body=Body(model=UpdateAgentBody, examples=examples.CHANGES),
                answers={200: Answer(description="The agent as it is now.", model=Agent)},
                errors=(404, 409),
            ),
            Operation(
                method="DELETE",
                path="/agent/{id}/",
                name="delete_agent",
                summary="Delete an agent",
                description="Sessions made from it go on: they keep their configuration.",
                tag=_TAG,
                handler=self.delete,
                scope=Scope.AGENTS_WRITE,
                writes=True,
                answers={204: Answer(description="The agent is gone.")},
                errors=(404, 409),
            ),
        )


def _fields(body: CreateAgentBody | UpdateAgentBody) -> dict[str, Any]:
    return body.model_dump(mode="json", exclude_unset=True)
