"""What the gateway needs from outside."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

from libs.contracts.identity import Identity
from libs.contracts.messages import Command
from libs.eventing import CommandState, Received
from services.gateway.domain.accounts import ApiKey, Company, KeyOwner, User
from services.gateway.domain.connections import Connection, ConnectionOwner
from services.gateway.domain.idempotency import IdempotencyRecord, IdempotentRequest
from services.gateway.domain.tokens import TokenGrant


class KeyDirectory(Protocol):
    """Where presented secrets are looked up, and the keys behind tokens."""

    async def find_by_digest(self, digest: bytes) -> KeyOwner | None: ...
    async def find_by_id(self, key_id: str) -> KeyOwner | None: ...


class KeyStore(Protocol):
    """A company's API keys. Every change is written together with the event about it."""

    async def key(self, company_id: str, key_id: str) -> ApiKey | None: ...

    async def keys(
        self, company_id: str, user_id: str | None, *, limit: int, offset: int
    ) -> tuple[Sequence[ApiKey], int]:
        """A page of keys, newest first, and how many there are; of one user when ``user_id`` is given."""

    async def add_key(
        self, key: ApiKey, digest: bytes, *, correlation_id: str, request: IdempotentRequest | None
    ) -> None:
        """Raises ``KeyReused`` when ``request`` was recorded before; then nothing is stored."""

    async def replace_key(
        self,
        old: ApiKey,
        successor: ApiKey,
        digest: bytes,
        *,
        old_expires_at: datetime,
        correlation_id: str,
        request: IdempotentRequest | None,
    ) -> bool:
        """Store the successor and let the old key end; False when the old one was rotated or revoked meanwhile.

        Raises ``KeyReused`` as ``add_key`` does.
        """

    async def revoke_key(self, key: ApiKey, *, at: datetime, correlation_id: str) -> None:
        """Revoking again changes nothing."""


class ConnectionStore(Protocol):
    """A company's connections. Every change is written together with the event about it."""

    async def by_key(self, key: str) -> ConnectionOwner | None: ...
    async def connection(self, company_id: str, connection_id: str) -> Connection | None: ...

    async def connections(
        self, company_id: str, user_id: str | None, *, limit: int, offset: int
    ) -> tuple[Sequence[Connection], int]:
        """A page of connections, newest first, and how many there are; of one user when ``user_id`` is given."""

    async def add(self, connection: Connection, *, correlation_id: str, request: IdempotentRequest | None) -> None:
        """Raises ``KeyReused`` when ``request`` was recorded before; then nothing is stored."""

    async def delete(self, connection: Connection, *, correlation_id: str) -> None:
        """Deleting again changes nothing."""


class TokenCodec(Protocol):
    """Bearer tokens as text that only this installation can make."""

    def encode(self, grant: TokenGrant) -> str: ...

    def decode(self, text: str) -> TokenGrant:
        """What the token says, also when that has expired. Raises ``AuthenticationFailed`` for any other text."""


class AccountStore(Protocol):
    """Companies and their users. Raises ``Conflict`` for a name that is taken."""

    async def add_company(self, company: Company) -> None: ...
    async def companies(self) -> Sequence[Company]: ...
    async def company(self, name_or_id: str) -> Company | None: ...
    async def add_user(self, user: User) -> None: ...
    async def users(self, company_id: str) -> Sequence[User]: ...
    async def user(self, company_id: str, name_or_id: str) -> User | None: ...


class IdempotencyStore(Protocol):
    async def record(self, request: IdempotentRequest, *, command_id: str, correlation_id: str) -> IdempotencyRecord:
        """Record these ids, or find those that an earlier request recorded.

        Raises ``KeyReused`` when that one had another body.
        """

    async def renew(
        self, request: IdempotentRequest, *, refused: str, command_id: str, correlation_id: str
    ) -> IdempotencyRecord:
        """Give a recorded request this command id instead of the refused one, unless another repeat was faster.

        ``correlation_id`` is the recorded one, for a record that was dropped for its age meanwhile.
        """


class UpstreamReply(Protocol):
    """What an upstream's internal API answered."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class UpstreamAnswer(Protocol):
    """An answer whose body is still coming in."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def pieces(self) -> AsyncIterator[bytes]: ...


class Upstreams(Protocol):
    """The internal HTTP APIs of the services, by service. Raises ``ServiceUnavailable`` when one does not answer."""

    def installed(self, upstream: str) -> bool:
        """Whether this installation has that service."""

    async def request(
        self,
        method: str,
        upstream: str,
        path: str,
        identity: Identity,
        *,
        params: dict[str, Any] | None = None,
        body: bytes | None = None,
    ) -> UpstreamReply: ...

    def exchange(
        self,
        method: str,
        upstream: str,
        path: str,
        identity: Identity,
        *,
        params: dict[str, Any] | None = None,
        body: AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """A call whose bodies are streamed; the answer may be there before the body is sent to its end."""


class Replies(Protocol):
    """What comes back for one command, from the moment of registration.

    In silence the upstream's look-up is asked, so that an event lost on the way is found all the same.
    """

    @property
    def state(self) -> str:
        """``taken`` once the upstream is known to have the command, else ``unknown``."""

    async def next(self, timeout: float) -> Received | None: ...
    async def outcome(self, timeout: float) -> Received | None: ...
    def ends(self, received: Received, /) -> bool:
        """Whether this is the command's terminal event."""

    def arrive(self, received: Received, /) -> None:
        """Take in an event that was found by other means."""


class CommandBus(Protocol):
    """Commands out, the events they cause back in."""

    def replies(
        self, command_id: str, command: type[Command], identity: Identity
    ) -> AbstractAsyncContextManager[Replies]: ...

    async def knows(self, command: type[Command], command_id: str, identity: Identity) -> CommandState:
        """Raises ``ServiceUnavailable``."""

    async def send(
        self,
        command: Command,
        *,
        subject: str,
        command_id: str,
        correlation_id: str,
        identity: Identity,
        expires_in: float,
        traceparent: str | None = None,
    ) -> None:
        """Raises ``ServiceUnavailable`` within 4 s."""

    def fresh(self) -> bool:
        """Whether events arrive, so that what was not heard of has not happened."""
