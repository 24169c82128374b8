"""The gateway's interfaces to its database and to the timeline service."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from libs.contracts.timeline import TimelineFilter
from services.gateway.domain.accounts import ApiKey, KeyOwner
from services.gateway.domain.connections import Connection, ConnectionOwner
from services.gateway.domain.idempotency import IdempotencyRecord, IdempotentRequest, Write
from services.gateway.domain.timeline import TimelineEvent, TimelinePage


class KeyStore(Protocol):
    """Stores API keys. Every change is stored together with its event."""

    async def find_by_digest(self, digest: bytes) -> KeyOwner | None: ...
    async def find_by_id(self, key_id: str) -> KeyOwner | None: ...
    async def key(self, company_id: str, key_id: str) -> ApiKey | None: ...

    async def has_user(self, company_id: str, user_id: str) -> bool: ...

    async def keys(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[ApiKey]:
        """Returns a page of the keys that the reader may see, newest first."""

    async def count_valid(self, company_id: str) -> int:
        """Returns the number of the company's keys that are neither revoked nor expired."""

    async def add_key(self, key: ApiKey, digest: bytes, write: Write, *, most: int | None = None) -> None:
        """Adds a key. Raises ``KeyReused`` if an earlier request has used the same idempotency key.

        Raises ``QuotaExceeded`` if the company already has ``most`` valid keys.
        """

    async def replace_key(
        self,
        old: ApiKey,
        successor: ApiKey,
        digest: bytes,
        write: Write,
        *,
        old_expires_at: datetime,
        most: int | None = None,
    ) -> bool:
        """Stores the successor and makes the old key expire. Raises the same errors as ``add_key``.

        Returns False if another request has rotated or revoked the old key.
        """

    async def revoke_key(self, key: ApiKey, write: Write, *, at: datetime) -> None:
        """Revokes a key, unless it's already revoked."""


class ConnectionStore(Protocol):
    """Stores connections. Every change is stored together with its event."""

    async def by_key(self, key: str) -> ConnectionOwner | None: ...
    async def connection(self, company_id: str, connection_id: str) -> Connection | None: ...

    async def connections(
        self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Connection]:
        """Returns a page of the connections that the reader may see, newest first."""

    async def add(self, connection: Connection, write: Write) -> None:
        """Adds a connection. Raises ``KeyReused`` if an earlier request has used the same idempotency key."""

    async def delete(self, connection: Connection, write: Write) -> None:
        """Deletes a connection, unless it's already deleted."""


class IdempotencyStore(Protocol):
    async def record(self, request: IdempotentRequest, *, command_id: str, correlation_id: str) -> IdempotencyRecord:
        """Returns the IDs recorded for the request, or records these IDs. Raises ``KeyReused`` if the body differs."""

    async def find(self, request: IdempotentRequest) -> str | None:
        """Returns the command ID recorded for the request's key, or None. The recorded body may differ."""

    async def renew(
        self, request: IdempotentRequest, *, refused: str, command_id: str, correlation_id: str
    ) -> IdempotencyRecord:
        """Replaces a refused command's ID in the request's record, unless another retry has already replaced it."""


class Timeline(Protocol):
    """Reads companies' events. Every method raises ``ServiceUnavailable`` if the timeline service is unreachable.

    A company's events have consecutive positions, so a reader that has reached a position has seen every earlier
    event.
    """

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        """Returns each company's newest position. Omits companies without events."""

    async def newest(self, where: TimelineFilter) -> TimelineEvent | None:
        """Returns the newest matching event. Examines at most 5,000 events."""

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage:
        """Returns a page of events with positions above ``after``, oldest first."""

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage:
        """Returns a page of events with positions below ``before``, newest first.

        ``before``: None for the newest events.
        """

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[TimelineEvent]:
        """Returns the turn's recorded events with sequence numbers above ``after_sequence``, in order."""
