"""Making, listing and deleting connections."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from libs.contracts.api.agents import Agent
from libs.contracts.errors import Conflict, NotFound, PermissionDenied
from libs.contracts.identifiers import is_agent_key, is_id, new_id
from libs.contracts.identity import Identity, Scope
from libs.service_defaults.upstream_answers import checked
from services.gateway.domain.accounts import Principal
from services.gateway.domain.connections import PUBLIC_SCOPES, Connection, new_connection_key
from services.gateway.domain.idempotency import IdempotentRequest, KeyReused, OtherBody
from services.gateway.domain.ports import ConnectionStore, Upstreams


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRequest:
    """What is wanted of a new connection; the agent is named by its id or by its key."""

    name: str
    agent_id: str | None
    agent_key: str | None
    allowed_origins: tuple[str, ...]
    scopes: frozenset[str] | None
    quota: int | None
    expires_at: datetime | None


class ConnectionManager:
    """What a caller may do with the company's connections: with those of others only by ``company:…`` scopes."""

    def __init__(
        self,
        store: ConnectionStore,
        upstreams: Upstreams,
        *,
        now: Callable[[], datetime],
        forget: Callable[[str], None],
    ) -> None:
        self._store = store
        self._upstreams = upstreams
        self._now = now
        self._forget = forget

    async def create(
        self,
        maker: Principal,
        wanted: ConnectionRequest,
        *,
        correlation_id: str,
        request: IdempotentRequest | None,
    ) -> Connection:
        """A repeated request gets the connection that the first one made.

        Raises ``NotFound`` for an agent that the maker may not see, ``PermissionDenied`` for scopes or a quota
        beyond the maker's own.
        """
        identity = maker.identity
        agent = await self._agent(identity, wanted)
        connection = Connection(
            id=new_id(),
            company_id=identity.company_id,
            user_id=identity.user_id,
            name=wanted.name or agent.name,
            key=new_connection_key(),
            agent_id=agent.id,
            agent_key=agent.agent_key,
            allowed_origins=wanted.allowed_origins,
            scopes=_within(identity, wanted.scopes),
            quota=_quota_within(maker.rate_limit, wanted.quota),
            created_at=self._now(),
            expires_at=wanted.expires_at,
        )
        try:
            await self._store.add(connection, correlation_id=correlation_id, request=request)
        except KeyReused as reuse:
            return await self._made_before(identity, reuse, request)
        return connection

    async def get(self, reader: Identity, connection_id: str) -> Connection:
        """Raises ``NotFound``."""
        connection = await self._find(reader, connection_id)
        if connection is None or not reader.may_read_of(connection.user_id):
            raise _missing()
        return connection

    async def page(self, reader: Identity, *, limit: int, offset: int) -> tuple[Sequence[Connection], int]:
        everyone = reader.allows(Scope.COMPANY_READ) or reader.allows(Scope.COMPANY_WRITE)
        user_id = None if everyone else reader.user_id
        return await self._store.connections(reader.company_id, user_id, limit=limit, offset=offset)

    async def delete(self, writer: Identity, connection_id: str, *, correlation_id: str) -> None:
        """Raises ``NotFound``. The sessions of its visitors stay."""
        connection = await self._find(writer, connection_id)
        if connection is None or not writer.may_write_of(connection.user_id):
            raise _missing()
        await self._store.delete(connection, correlation_id=correlation_id)
        self._forget(connection.id)

    async def _find(self, caller: Identity, connection_id: str) -> Connection | None:
        return await self._store.connection(caller.company_id, connection_id) if is_id(connection_id) else None

    async def _agent(self, maker: Identity, wanted: ConnectionRequest) -> Agent:
        if wanted.agent_id is not None and not is_id(wanted.agent_id):
            raise NotFound("There is no agent with this id.")
        if wanted.agent_key is not None and not is_agent_key(wanted.agent_key):
            raise NotFound("There is no agent with this key.")
        place = wanted.agent_id or f"by-key/{wanted.agent_key}"
        reply = await self._upstreams.request("GET", "registry", f"/internal/agents/{place}", maker)
        return Agent.model_validate_json(checked(reply))

    async def _made_before(self, maker: Identity, reuse: KeyReused, request: IdempotentRequest | None) -> Connection:
        if request is None or request.body_hash != reuse.body_hash:
            raise OtherBody from None
        connection = await self._store.connection(maker.company_id, reuse.entity_id)
        if connection is None:
            raise Conflict("The connection that this request made has been deleted.")
        return connection


def _missing() -> NotFound:
    return NotFound("There is no connection with this id.")


def _within(maker: Identity, wanted: frozenset[str] | None) -> frozenset[str]:
    if wanted is None:
        wanted = maker.scopes & PUBLIC_SCOPES
    if not wanted:
        raise PermissionDenied("Visitors need scopes for sessions or artifacts, and you have none to give.")
    beyond = sorted(wanted - maker.scopes)
    if beyond:
        raise PermissionDenied(f"A connection cannot be given scopes that its maker lacks: {', '.join(beyond)}.")
    return wanted


def _quota_within(own: int | None, wanted: int | None) -> int | None:
    if wanted is None:
        return own
    if own is not None and wanted > own:
        raise PermissionDenied(f"A connection cannot be given a quota above its maker's rate limit, {own} a minute.")
    return wanted
