"""Agents: stored configurations and their versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aes_client.flows import Emit, Emitting
from aes_client.models import Agent, AgentVersion, ValidationReport
from aes_client.requests import Request, nothing, one, path_of
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params


class Agents(Resource[R]):
    """``client.agents``."""

    @operation
    def validate(self, config: params.AgentConfiguration | Mapping[str, Any] | str) -> Request[ValidationReport]:
        """Says what is wrong with a configuration and what is doubtful; nothing is stored. A text is one in YAML."""
        body = config if isinstance(config, str) else dict(config)
        return Request("POST", "/agent/validate/", one(ValidationReport), body=body)

    @operation
    def create(self, **agent: Unpack[params.CreateAgentBody]) -> Request[Agent]:
        """Stores an agent."""
        return Request("POST", "/agent/", one(Agent), body=dict(agent))

    @operation
    def get(self, agent_id: str) -> Request[Agent]:
        return Request("GET", _path(agent_id), one(Agent))

    @iteration
    def list(self) -> Emitting[Agent]:
        """Yields the agents that the caller may use."""
        for agent in (yield from self._send(Request("GET", "/agent/", one(list[Agent])))):
            yield Emit(agent)

    @operation
    def update(self, agent_id: str, **changes: Unpack[params.UpdateAgentBody]) -> Request[Agent]:
        """Changes what is given; another configuration becomes a new version."""
        return Request("PATCH", _path(agent_id), one(Agent), body=dict(changes))

    @operation
    def delete(self, agent_id: str) -> Request[None]:
        """Deletes an agent. Sessions that were made from it go on."""
        return Request("DELETE", _path(agent_id), nothing)

    @iteration
    def versions(self, agent_id: str) -> Emitting[AgentVersion]:
        """Yields the versions, newest first."""
        yield from self._pages(f"{_path(agent_id)}versions/", "versions", AgentVersion, {})

    @operation
    def version(self, agent_id: str, version_number: str) -> Request[AgentVersion]:
        path = _path(agent_id) + path_of("versions/{version}/", version=version_number)
        return Request("GET", path, one(AgentVersion))


def _path(agent_id: str) -> str:
    return path_of("/agent/{agent}/", agent=agent_id)
