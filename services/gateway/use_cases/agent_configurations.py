"""Finds what a session begins with when a protocol names its agent as a model."""

from collections.abc import Callable
from typing import Any, Final

import orjson

from libs.contracts.commands.runtime import SessionBeginning
from libs.contracts.errors import ErrorDetail, InvalidRequest, NotFound, ValidationFailed
from libs.contracts.identifiers import is_agent_key
from libs.contracts.identity import Identity
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.ports import Upstreams
from services.gateway.use_cases.principals import TTLCache

_LONGEST_NAME: Final = 200
_Named = tuple[Identity, str]


class AgentConfigurations:
    """Normalised configurations by caller and model, kept for 30 s or until an event about the agent (``forget``).

    A model is an agent's key, or ``provider:name`` for an agent without instructions. A call of a protocol without
    sessions would otherwise cost a request to the registry each time.
    """

    def __init__(self, upstreams: Upstreams, fresh: Callable[[], bool], monotonic: Callable[[], float]) -> None:
        self._upstreams = upstreams
        self._known = TTLCache(self._look_up, _agent_id, fresh, monotonic)

    async def of(self, identity: Identity, model: str) -> SessionBeginning:
        """Raises ``NotFound`` for a model that is neither, or not for the caller."""
        found = await self._known.find((identity, model))
        if found is None:
            raise NotFound(f"There is no model {model[:_LONGEST_NAME]!r}.", details=[_unknown(model)])
        return found

    def forget(self, agent_id: str) -> None:
        self._known.forget(agent_id)

    async def _look_up(self, named: _Named) -> SessionBeginning | None:
        identity, model = named
        wanted = _wanted(model)
        if wanted is None:
            return None
        path = "/internal/agents/normalize"
        reply = await self._upstreams.request("POST", "registry", path, identity, body=orjson.dumps(wanted))
        try:
            return SessionBeginning.model_validate_json(checked(reply))
        except NotFound:
            # Not kept as a miss: the agent may be created at any moment.
            raise NotFound(f"There is no model {model!r}.", details=[_unknown(model)]) from None
        except (ValidationFailed, InvalidRequest) as problem:
            if "agent_key" in wanted:
                raise
            # The provider is unknown, or not configured.
            raise NotFound(problem.message, details=[_unknown(model)]) from None


def _wanted(model: str) -> dict[str, Any] | None:
    if is_agent_key(model):
        return {"agent_key": model}
    if ":" in model and len(model) <= _LONGEST_NAME:
        return {"name": model, "agent_type": "llm_agent", "llm_config": {"model": model}}
    return None


def _unknown(model: str) -> ErrorDetail:
    return ErrorDetail(loc=["model"], type="model_not_found", message=f"there is no model {model[:_LONGEST_NAME]!r}")


def _agent_id(beginning: SessionBeginning) -> str:
    return beginning.agent_id or ""
