"""Interfaces of the gateway to its database and to the other services."""

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
    """API keys. Every change is stored together with its event."""

    async def find_by_digest(self, digest: bytes) -> KeyOwner | None: ...
    async def find_by_id(self, key_id: str) -> KeyOwner | None: ...
    async def key(self, company_id: str, key_id: str) -> ApiKey | None: ...

    async def has_user(self, company_id: str, user_id: str) -> bool: ...

    async def keys(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[ApiKey]:
        """Returns a page of the keys that the reader may see, newest first, and their total number."""

    async def count_valid(self, company_id: str) -> int:
        """The company's keys that are neither revoked nor expired."""

    async def add_key(self, key: ApiKey, digest: bytes, write: Write, *, most: int | None = None) -> None:
        """Raises ``KeyReused``, without storing anything, if the same write was recorded before.

        Raises ``QuotaExceeded`` if the company already has ``most`` valid keys, even if several are added concurrently.
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
        """Stores the successor and lets the old key expire; False if that was rotated or revoked in the meantime.

        Raises ``KeyReused`` and ``QuotaExceeded`` like ``add_key``.
        """

    async def revoke_key(self, key: ApiKey, write: Write, *, at: datetime) -> None:
        """Does nothing for a revoked key."""


class ConnectionStore(Protocol):
    """Connections. Every change is stored together with its event."""

    async def by_key(self, key: str) -> ConnectionOwner | None: ...
    async def connection(self, company_id: str, connection_id: str) -> Connection | None: ...

    async def connections(
        self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Connection]:
        """Returns a page of the connections that the reader may see, newest first, and their total number."""

    async def add(self, connection: Connection, write: Write) -> None:
        """Raises ``KeyReused``, without storing anything, if the same write was recorded before."""

    async def delete(self, connection: Connection, write: Write) -> None:
        """Does nothing for a deleted connection."""


class IdempotencyStore(Protocol):
    async def record(self, request: IdempotentRequest, *, command_id: str, correlation_id: str) -> IdempotencyRecord:
        """Records these IDs, or returns those that an earlier request recorded.

        Raises ``KeyReused`` if that request had another body.
        """

    async def find(self, request: IdempotentRequest) -> str | None:
        """The command ID recorded for the key, whatever the body."""

    async def renew(
        self, request: IdempotentRequest, *, refused: str, command_id: str, correlation_id: str
    ) -> IdempotencyRecord:
        """Replaces the refused command ID of a recorded request, unless another retry was faster.

        ``correlation_id`` is the recorded one, in case the record was purged in the meantime.
        """


class Timeline(Protocol):
    """Reads the numbered log of events. Every method raises ``ServiceUnavailable`` while the log is unreachable.

    A company's positions have no gaps, and an event is stored before the one at the next position. So a reader at a
    position has seen every event below it.
    """

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        """The newest position of each company that has events."""

    async def newest(self, where: TimelineFilter) -> TimelineEvent | None:
        """The last event that matches the filter, among the newest 5,000 found by an index."""

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage:
        """Events with positions above ``after``, in order, and where the next page starts."""

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage:
        """Events with positions below ``before``, or the last ones, newest first, and where the next page starts."""

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[TimelineEvent]:
        """Recorded events of the turn, with sequences above ``after_sequence``, in order."""
