"""Change a stored agent: its configuration, which makes a version, or its settings, which do not."""

from collections.abc import Callable
from datetime import datetime

from libs.contracts.api.agents import UpdateAgentBody
from libs.contracts.commands.registry import UpdateAgent
from libs.contracts.events.registry import AgentUpdated
from libs.contracts.identity import Identity
from services.registry.domain.agent import AgentNotFound, StoredAgent
from services.registry.domain.ports import AgentReader, AgentWriter
from services.registry.use_cases.validate_configuration import Validation, parse_or_reject


class AgentChange:
    def __init__(self, reader: AgentReader, validation: Validation, now: Callable[[], datetime]) -> None:
        self._reader = reader
        self._validation = validation
        self._now = now

    async def prepare(self, command: UpdateAgent, caller: Identity) -> UpdateAgentBody:
        """Validate what is to change, asking other services.

        Only the parts that change must mean something here: a tool that has gone since does not keep anyone
        from renaming the agent. Raises ``AgentNotFound``, ``PermissionDenied`` or ``InvalidConfiguration``.
        """
        agent = _writable(await self._reader.get(command.agent_id), caller)
        changes = parse_or_reject(UpdateAgentBody, command.changes)
        after = agent.changed(changes, self._now())
        await self._validation.require(after.configuration(), caller, changes.model_fields_set)
        return changes

    async def change(
        self, agents: AgentWriter, command: UpdateAgent, changes: UpdateAgentBody, caller: Identity
    ) -> AgentUpdated:
        """Make the changes to the agent as it stands now, which another change may have moved on."""
        agent = _writable(await agents.lock(command.agent_id), caller)
        after = agent.changed(changes, self._now())
        if after is not agent:
            await agents.save(agent, after, caller.user_id)
        return AgentUpdated(agent=after.public())


def _writable(agent: StoredAgent | None, caller: Identity) -> StoredAgent:
    if agent is None:
        raise AgentNotFound()
    agent.require_writable(caller)
    return agent
