"""Finds the principal of a connection's or a public agent's key, which stands in web pages."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from libs.contracts.api.agents import Agent
from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identifiers import is_agent_key
from libs.contracts.identity import Identity
from libs.contracts.origins import canonical_origin, is_origin
from libs.service_defaults.upstream_answers import checked
from services.gateway.domain.accounts import DEFAULT_RATE_LIMIT, Principal
from services.gateway.domain.connections import PUBLIC_SCOPES, ConnectionOwner, PublicUse, has_connection_form
from services.gateway.domain.ports import ConnectionStore, Upstreams
from services.gateway.use_cases.authentication.ttl_cache import TTLCache

# Of no company: the answer is public, and tells whose the agent is.
_GATEWAY: Final = Identity(company_id="", user_id="gateway", key_id="gateway", scopes=frozenset())


class PublicPrincipals:
    """Everybody who uses a public key shares one identity; a session is open to all who know its id.

    An agent's own key works while the agent is public, from the origins that it allows.
    """

    def __init__(
        self,
        connections: ConnectionStore,
        upstreams: Upstreams,
        *,
        fresh: Callable[[], bool],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._upstreams = upstreams
        self._now = now
        self._by_connection: TTLCache[str, Principal] = TTLCache(
            self._of_connection, _id, fresh=fresh, monotonic=monotonic
        )
        self._by_agent: TTLCache[str, Principal] = TTLCache(self._of_agent, _id, fresh=fresh, monotonic=monotonic)

    async def by_connection_key(self, key: str) -> Principal:
        """Raises ``AuthenticationFailed`` for an unknown, deleted or expired connection."""
        found = await self._by_connection.find(key) if has_connection_form(key) else None
        if found is None:
            raise AuthenticationFailed("The connection key is not valid.")
        if found.expires_at is not None and found.expires_at <= self._now():
            raise AuthenticationFailed("The connection key has expired.")
        return found

    async def by_agent_key(self, key: str) -> Principal:
        """Raises ``AuthenticationFailed`` unless it is the key of a public agent."""
        found = await self._by_agent.find(key) if is_agent_key(key) else None
        if found is None:
            raise AuthenticationFailed("The agent key is not valid: there is no such public agent.")
        return found

    def forget(self, identifier: str) -> None:
        """Drops a connection or an agent from the caches."""
        self._by_connection.forget(identifier)
        self._by_agent.forget(identifier)

    async def _of_connection(self, key: str) -> Principal | None:
        owner = await self._connections.by_key(key)
        return None if owner is None else _connection_principal(owner)

    async def _of_agent(self, key: str) -> Principal | None:
        reply = await self._upstreams.request("GET", "registry", f"/internal/agents/public/{key}", _GATEWAY)
        return None if reply.status == 404 else _agent_principal(Agent.model_validate_json(checked(reply)))


def _id(principal: Principal) -> str:
    return principal.identity.key_id


def _connection_principal(owner: ConnectionOwner) -> Principal:
    connection = owner.connection
    identity = Identity(
        company_id=connection.company_id,
        company_name=owner.company_name,
        user_id=connection.id,
        user_name=connection.name,
        key_id=connection.id,
        scopes=connection.scopes,
    )
    use = PublicUse(
        agent_id=connection.agent_id,
        agent_key=connection.agent_key,
        origins=frozenset(connection.allowed_origins),
        sees_as=identity.model_copy(update={"user_id": connection.user_id, "user_name": owner.user_name}),
    )
    return Principal(identity=identity, expires_at=connection.expires_at, rate_limit=connection.quota, public=use)


def _agent_principal(agent: Agent) -> Principal:
    identity = Identity(
        company_id=agent.company,
        user_id=agent.id,
        user_name=agent.agent_key,
        key_id=agent.id,
        scopes=PUBLIC_SCOPES,
    )
    use = PublicUse(
        agent_id=agent.id,
        agent_key=agent.agent_key,
        origins=frozenset(canonical_origin(origin) for origin in agent.allowed_origins if is_origin(origin)),
        sees_as=identity,
    )
    return Principal(identity=identity, expires_at=None, rate_limit=DEFAULT_RATE_LIMIT, public=use)
