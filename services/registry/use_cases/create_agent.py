"""Store a new agent."""

from collections.abc import Callable
from datetime import datetime

from libs.contracts.api.agents import CreateAgentBody
from libs.contracts.commands.registry import CreateAgent
from libs.contracts.errors import Conflict, InvalidRequest
from libs.contracts.events.registry import AgentCreated
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from services.registry.domain.agent import new_agent
from services.registry.domain.agent_key import candidates
from services.registry.domain.ports import AgentWriter
from services.registry.use_cases.validate_configuration import Validation, parse_or_reject

# With 27^6 suffixes, a second one that is taken is a sign of something else.
_KEYS_TO_TRY = 5


class AgentCreation:
    def __init__(self, validation: Validation, now: Callable[[], datetime]) -> None:
        self._validation = validation
        self._now = now

    async def prepare(self, command: CreateAgent, caller: Identity) -> CreateAgentBody:
        """Validate, asking other services. Raises ``InvalidConfiguration``."""
        if not is_id(command.agent_id):
            raise InvalidRequest("agent_id is not an id")
        body = parse_or_reject(CreateAgentBody, command.agent)
        await self._validation.require(body, caller)
        return body

    async def create(
        self, agents: AgentWriter, command: CreateAgent, body: CreateAgentBody, caller: Identity
    ) -> AgentCreated:
        """Store the agent under the first free key. Raises ``Conflict`` when its id is taken."""
        keys = candidates(body.name)
        for _ in range(_KEYS_TO_TRY):
            agent = new_agent(agent_id=command.agent_id, agent_key=next(keys), body=body, owner=caller, now=self._now())
            if await agents.add(agent):
                return AgentCreated(agent=agent.public())
        raise Conflict("no free key was found for an agent of this name")
