"""Manages connections, which are public keys for web pages."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from libs.contracts.errors import Conflict, NotFound, PermissionDenied
from libs.contracts.identifiers import id_of, is_id, new_id
from libs.contracts.identity import PUBLIC_SCOPES, Identity
from libs.contracts.pages import Page
from libs.contracts.resources.agents import Agent
from libs.contracts.resources.connections import CreateConnectionBody
from libs.service_defaults import UpstreamClient
from services.gateway.domain.accounts import Principal, check_scopes, expiry, limit_within
from services.gateway.domain.connections import Connection, new_connection_key
from services.gateway.domain.idempotency import KeyReused, Write
from services.gateway.domain.ports import ConnectionStore
from services.gateway.use_cases.agents import Agents

_ABOVE: Final = "A connection can't have a higher quota than its creator's rate limit"


@dataclass(frozen=True, slots=True)
class Connections:
    """Creates, reads and deletes connections. ``forget`` is called with the ID of each deleted connection."""

    store: ConnectionStore
    agents: Agents
    upstreams: UpstreamClient
    now: Callable[[], datetime]
    forget: Callable[[str], None]

    async def page(self, reader: Identity, **page: Any) -> Page[Connection]:
        return await self.store.connections(reader, **page)

    async def create(self, write: Write, maker: Principal, wanted: CreateConnectionBody) -> Connection:
        """Creates a connection. A retry returns the connection of the first attempt.

        Raises ``NotFound`` for an agent that the creator can't see, and ``PermissionDenied`` for scopes or a quota
        beyond the creator's own.
        """
        identity, now = maker.identity, self.now()
        expires_at = expiry(wanted.expires_at, now)
        agent = await self._agent(identity, wanted)
        connection = Connection(
            id=new_id(),
            company_id=identity.company_id,
            user_id=identity.user_id,
            name=wanted.name or agent.name,
            key=new_connection_key(),
            agent_id=agent.id,
            agent_key=agent.agent_key,
            allowed_origins=tuple(dict.fromkeys(wanted.allowed_origins)),
            scopes=_within(identity, wanted.scopes),
            quota=limit_within(maker.rate_limit, wanted.quota, _ABOVE),
            created_at=now,
            expires_at=expires_at,
        )
        try:
            await self.store.add(connection, write)
        except KeyReused as reuse:
            return await self._made_before(write, reuse)
        return connection

    async def get(self, reader: Identity, connection_id: str) -> Connection:
        connection = await self.store.connection(reader.company_id, connection_id) if is_id(connection_id) else None
        if connection is None or not reader.may_read_of(connection.user_id):
            raise NotFound("There is no connection with this ID.")
        return connection

    async def delete(self, write: Write, connection_id: str) -> None:
        """Deletes a connection. Its sessions remain."""
        connection = await self.get(write.identity, connection_id)
        if not write.identity.may_write_of(connection.user_id):
            raise NotFound("There is no connection with this ID.")
        await self.store.delete(connection, write)
        # Takes effect on this replica immediately, without waiting for the event.
        self.forget(connection.id)

    async def _agent(self, maker: Identity, wanted: CreateConnectionBody) -> Agent:
        if wanted.agent_key is not None:
            return await self.agents.find(maker, wanted.agent_key)
        path = f"/internal/agents/{id_of(wanted.agent_id or '', 'agent')}"
        return await self.upstreams.read(Agent, "registry", path, maker)

    async def _made_before(self, write: Write, reuse: KeyReused) -> Connection:
        reuse.require_same_body(write)
        connection = await self.store.connection(write.identity.company_id, reuse.entity_id)
        if connection is None:
            raise Conflict("The connection that this request created has been deleted.")
        return connection


def _within(maker: Identity, given: Collection[str] | None) -> frozenset[str]:
    wanted = maker.scopes & PUBLIC_SCOPES if given is None else frozenset(given)
    if not wanted:
        raise PermissionDenied("Visitors need scopes for sessions or artifacts, which your credential lacks.")
    check_scopes(wanted, maker.scopes, "A connection can't have scopes that its creator lacks")
    return wanted
