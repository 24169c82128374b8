"""Finds the principal for an API key, a bearer token or a public key."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Generic, TypeVar

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identifiers import is_agent_key
from libs.contracts.identity import PUBLIC_SCOPES, Identity
from libs.contracts.origins import canonical_origin, is_origin
from libs.contracts.resources.agents import Agent
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.accounts import DEFAULT_RATE_LIMIT, ApiKey, KeyOwner, Principal, digest_of, has_form
from services.gateway.domain.connections import ConnectionOwner, PublicUse, has_connection_form
from services.gateway.domain.ports import ConnectionStore, KeyStore
from services.gateway.domain.tokens import JwtTokens

CACHE_SECONDS: Final = 30.0
MISS_SECONDS: Final = 5.0
_CACHE_SIZE: Final = 10_000
# Belongs to no company: the registry's response is public and contains the agent's company.
GATEWAY: Final = Identity(company_id="", user_id="gateway", key_id="gateway", scopes=frozenset())
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Known:
    key: ApiKey
    principal: Principal


class Principals:
    """Finds principals and caches them.

    All users of a public key share one identity, so each user can open any of the key's sessions by ID.
    """

    def __init__(
        self,
        keys: KeyStore,
        connections: ConnectionStore,
        tokens: JwtTokens,
        upstreams: UpstreamClient,
        *,
        fresh: Callable[[], bool],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._connections = connections
        self._tokens = tokens
        self._upstreams = upstreams
        self._now = now
        self._by_digest = TTLCache(self._of_digest, lambda known: known.key.id, fresh, monotonic)
        self._by_id = TTLCache(self._of_id, lambda known: known.key.id, fresh, monotonic)
        self._by_connection = TTLCache(
            self._of_connection, lambda principal: principal.identity.key_id, fresh, monotonic
        )
        self._by_agent = TTLCache(self._of_agent, lambda principal: principal.identity.key_id, fresh, monotonic)

    async def by_secret(self, secret: str) -> Principal:
        """Raises ``AuthenticationFailed`` if the API key is unknown, revoked or expired."""
        return self._valid(await self._by_digest.find(digest_of(secret)) if has_form(secret) else None)

    async def by_token(self, token: str) -> Principal:
        """Raises ``AuthenticationFailed`` if the bearer token or its key is no longer valid."""
        grant = self._tokens.decode(token)
        if grant.expires_at <= self._now():
            raise AuthenticationFailed("The bearer token has expired. Request a new one.")
        principal = self._valid(await self._by_id.find(grant.key_id))
        identity = principal.identity
        # The key's scopes may have been reduced, and a token never allows more than its key does now.
        narrowed = identity.model_copy(update={"scopes": identity.scopes & grant.scopes})
        return replace(principal, identity=narrowed, expires_at=grant.expires_at)

    async def by_connection_key(self, key: str) -> Principal:
        """Raises ``AuthenticationFailed`` if the connection's key is unknown, deleted or expired."""
        found = await self._by_connection.find(key) if has_connection_form(key) else None
        if found is None:
            raise AuthenticationFailed("Invalid connection key. Check the key, or create a new connection.")
        if found.expires_at is not None and found.expires_at <= self._now():
            raise AuthenticationFailed("The connection key has expired. Create a new connection.")
        return found

    async def by_agent_key(self, key: str) -> Principal:
        """Raises ``AuthenticationFailed`` unless this is the key of a public agent."""
        found = await self._by_agent.find(key) if is_agent_key(key) else None
        if found is None:
            raise AuthenticationFailed("Invalid agent key. It must be the key of a public agent.")
        return found

    def forget(self, identifier: str) -> None:
        """Drops a key, connection or agent from the caches. Lookups in progress aren't cached, either."""
        for cache in (self._by_digest, self._by_id, self._by_connection, self._by_agent):
            cache.forget(identifier)

    def _valid(self, found: _Known | None) -> Principal:
        if found is None:
            raise AuthenticationFailed("Invalid API key. Check the key, or create a new one.")
        match found.key.state(self._now()):
            case "revoked":
                raise AuthenticationFailed("The API key has been revoked. Use another key.")
            case "expired":
                raise AuthenticationFailed("The API key has expired. Create a new one.")
            case "valid":
                return found.principal

    async def _of_digest(self, digest: bytes) -> _Known | None:
        return _known(await self._keys.find_by_digest(digest))

    async def _of_id(self, key_id: str) -> _Known | None:
        return _known(await self._keys.find_by_id(key_id))

    async def _of_connection(self, key: str) -> Principal | None:
        owner = await self._connections.by_key(key)
        return None if owner is None else _connection_principal(owner)

    async def _of_agent(self, key: str) -> Principal | None:
        reply = await self._upstreams.request("GET", "registry", f"/internal/agents/public/{key}", GATEWAY)
        return None if reply.status == 404 else _agent_principal(Agent.model_validate_json(checked(reply)))


class TTLCache(Generic[K, V]):
    """Caches values for 30 s, or until an event about the value arrives (``forget``).

    Missing values are cached for 5 s or until any event, because a page with an invalid key keeps sending requests.
    While the bus isn't ``fresh``, events may be missed, so values are looked up each time.
    """

    def __init__(
        self,
        look_up: Callable[[K], Awaitable[V | None]],
        id_of: Callable[[V], str],
        fresh: Callable[[], bool],
        monotonic: Callable[[], float],
        *,
        size: int = _CACHE_SIZE,
    ) -> None:
        self._look_up = look_up
        self._id_of = id_of
        self._fresh = fresh
        self._monotonic = monotonic
        self._size = size
        self._found: dict[K, tuple[float, V]] = {}
        self._by_id: defaultdict[str, set[K]] = defaultdict(set)
        self._missed: dict[K, float] = {}
        self._forgotten = 0

    async def find(self, presented: K) -> V | None:
        found = self._found.get(presented)
        if found is not None and found[0] > self._monotonic() and self._fresh():
            return found[1]
        if self._missed.get(presented, 0.0) > self._monotonic() and self._fresh():
            return None
        return await self._load(presented)

    def forget(self, identifier: str) -> None:
        """Drops the values with this ID. The results of lookups in progress aren't cached, either."""
        self._forgotten += 1
        # Misses have no IDs, so the event may be about any of them.
        self._missed.clear()
        for presented in self._by_id.pop(identifier, ()):
            self._found.pop(presented, None)

    async def _load(self, presented: K) -> V | None:
        forgotten = self._forgotten
        value = await self._look_up(presented)
        # The value may be older than the event: it's valid for this request, but mustn't be cached.
        if forgotten != self._forgotten:
            return value
        if value is None:
            if len(self._missed) >= self._size:
                self._missed.clear()
            self._missed[presented] = self._monotonic() + MISS_SECONDS
            return None
        self._missed.pop(presented, None)
        if len(self._found) >= self._size:
            self._found.clear()
            self._by_id.clear()
        self._found[presented] = (self._monotonic() + CACHE_SECONDS, value)
        self._by_id[self._id_of(value)].add(presented)
        return value


def _known(owner: KeyOwner | None) -> _Known | None:
    if owner is None:
        return None
    key = owner.key
    identity = Identity(
        company_id=key.company_id,
        company_name=owner.company_name,
        user_id=key.user_id,
        user_name=owner.user_name,
        key_id=key.id,
        scopes=key.scopes,
    )
    return _Known(key, Principal(identity=identity, expires_at=key.expires_at, rate_limit=key.rate_limit))


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
