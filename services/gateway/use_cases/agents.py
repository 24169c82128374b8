"""Finds stored agents and models, and builds the initial configurations of sessions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from pydantic import TypeAdapter

from libs.contracts.errors import ErrorDetail, InvalidRequest, NotFound, ServiceError, ValidationFailed
from libs.contracts.identifiers import is_agent_key
from libs.contracts.identity import Identity
from libs.contracts.resources.agents import Agent
from libs.contracts.resources.sessions import SessionBeginning
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.gateway.use_cases.principals import GATEWAY, TTLCache

_LONGEST_NAME: Final = 200
_LARGEST: Final = 8 * 1024
_REMEMBERED: Final = 2000
_AGENTS: Final = TypeAdapter(list[Agent])
_Asked = tuple[Identity, bytes]


class Agents:
    """Reads agents from the registry, and the providers' models from the runtime.

    Caches normalized configurations for 30 s or until ``forget``. Complete configurations with knowledge bases or
    toolsets aren't cached.
    """

    def __init__(self, upstreams: UpstreamClient, fresh: Callable[[], bool], monotonic: Callable[[], float]) -> None:
        self._upstreams = upstreams
        self._known = TTLCache(
            self._look_up, lambda beginning: beginning.agent_id or "", fresh, monotonic, size=_REMEMBERED
        )

    async def visible_to(self, identity: Identity, *, limit: int | None = None) -> list[Agent]:
        """Returns the stored agents that the caller can see, newest first."""
        params = None if limit is None else {"limit": limit}
        reply = await self._upstreams.request("GET", "registry", "/internal/agents", identity, params=params)
        return _AGENTS.validate_json(checked(reply))

    async def provider_models(self, identity: Identity) -> list[str]:
        """Returns the configured providers' models, as ``provider:name``."""
        reply = checked(await self._upstreams.request("GET", "runtime", "/internal/models", identity))
        providers = orjson.loads(reply)["providers"]
        return [model["name"] for each in providers if each["configured"] for model in each["models"]]

    async def find(self, identity: Identity, agent_key: str) -> Agent:
        """Finds a stored agent by its key. Raises ``NotFound`` if the caller can't see an agent with this key."""
        return await self._by_key(identity, "by-key", agent_key)

    async def find_public(self, agent_key: str) -> Agent:
        """Finds a public agent for a caller without a credential. Raises ``NotFound`` if there is none."""
        return await self._by_key(GATEWAY, "public", agent_key, {"in_web_pages": "false"})

    async def beginning_of(self, identity: Identity, model: str) -> SessionBeginning:
        """Returns the initial configuration of a session with this model. Raises ``NotFound`` if the model isn't
        available.

        ``model``: a stored agent's key, or ``provider:name`` for a plain model without instructions.
        """
        wanted = _wanted(model)
        if wanted is None:
            raise NotFound(f"The model {model[:_LONGEST_NAME]!r} doesn't exist.", details=[_unknown(model)])
        try:
            return await self.normalized(identity, wanted)
        except NotFound:
            raise NotFound(f"The model {model!r} doesn't exist.", details=[_unknown(model)]) from None
        except (ValidationFailed, InvalidRequest) as problem:
            if "agent_key" in wanted:
                raise
            # The provider is unknown or not configured.
            raise _unusable(model, problem) from None

    async def normalized(self, identity: Identity, wanted: Mapping[str, Any]) -> SessionBeginning:
        """Normalizes a complete configuration, or a stored agent's ID or key. Raises the registry's errors."""
        asked = (identity, orjson.dumps(wanted))
        found = await (self._known.find(asked) if _may_be_kept(wanted, asked[1]) else self._look_up(asked))
        assert found is not None
        return found

    def forget(self, agent_id: str) -> None:
        self._known.forget(agent_id)

    async def _by_key(
        self, identity: Identity, kind: str, agent_key: str, params: dict[str, Any] | None = None
    ) -> Agent:
        if not is_agent_key(agent_key):
            raise NotFound("There is no agent with this key.")
        path = f"/internal/agents/{kind}/{agent_key}"
        return await self._upstreams.read(Agent, "registry", path, identity, params)

    async def _look_up(self, asked: _Asked) -> SessionBeginning | None:
        """Requests the configuration from the registry. Raises ``NotFound`` for a missing agent, so that the
        result isn't cached.
        """
        identity, body = asked
        reply = await self._upstreams.request("POST", "registry", "/internal/agents/normalize", identity, body=body)
        return SessionBeginning.model_validate_json(checked(reply))


def _may_be_kept(wanted: Mapping[str, Any], body: bytes) -> bool:
    if len(body) > _LARGEST:
        return False
    if {"agent_id", "agent_key"} & wanted.keys():
        return True
    tools = wanted.get("tools") or []
    own = wanted.get("knowledge_bases") or wanted.get("tool_policies")
    # Names with a dot belong to toolsets.
    return not own and isinstance(tools, list) and not any("." in str(tool) for tool in tools)


def _wanted(model: str) -> dict[str, Any] | None:
    if is_agent_key(model):
        return {"agent_key": model}
    if ":" in model and len(model) <= _LONGEST_NAME:
        return {"name": model, "agent_type": "llm_agent", "llm_config": {"model": model}}
    return None


def _unknown(model: str) -> ErrorDetail:
    return ErrorDetail(
        loc=["model"], type="model_not_found", message=f"the model {model[:_LONGEST_NAME]!r} doesn't exist"
    )


def _unusable(model: str, problem: ServiceError) -> NotFound:
    """Converts the registry's finding about a plain model. The caller didn't send the field that it's about."""
    finding, unknown = next(iter(problem.details or ()), None), _unknown(model)
    if finding is None:
        return NotFound(problem.message, details=[unknown])
    return NotFound(f"{finding.message}.", details=[unknown.model_copy(update={"hint": finding.hint})])
