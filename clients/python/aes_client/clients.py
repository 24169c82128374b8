"""The blocking and the asynchronous client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import httpx

from aes_client import operations
from aes_client.flows import Flow
from aes_client.models import UsageItem, UsageReport
from aes_client.requests import Request, document_or_none, given, one
from aes_client.resource import R, operation
from aes_client.resources.actions import Actions
from aes_client.resources.events import Events
from aes_client.resources.files import Files
from aes_client.resources.knowledge_bases import KnowledgeBases
from aes_client.resources.sessions import SessionHandle, Sessions
from aes_client.resources.toolsets import Toolsets
from aes_client.retries import RetryPolicy
from aes_client.runners import Address, AsyncRunner, SyncRunner
from aes_client.tools import Tools

if TYPE_CHECKING:
    from typing_extensions import Self

_TIMEOUT_SECONDS = 60.0
_USAGE_PAGE = 1000
# Each open stream holds a connection.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)


class _Service(operations.Service[R]):
    """The attributes and methods that ``Client`` and ``AsyncClient`` share."""

    def __init__(self, runner: R, policy: RetryPolicy) -> None:
        super().__init__(runner, policy)
        self.sessions = Sessions(runner, policy)
        self.actions = Actions(runner, policy)
        self.events = Events(runner, policy)
        self.files = Files(runner, policy)
        self.knowledge_bases = KnowledgeBases(runner, policy)
        self.toolsets = Toolsets(runner, policy)

    @operation
    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Request[Any]:
        """Sends a request to any route, including routes that this version of the client has no method for.

        ``path`` is relative to ``/api/v1``. Returns the parsed JSON response, or ``None`` if the response is empty.
        Temporary failures are retried with the same idempotency key.
        """
        request: Request[Any] = Request(method.upper(), path, document_or_none, body=body, query=query or {})
        return request.with_key(idempotency_key)

    @operation
    def usage(
        self, *, begin: str | None = None, end: str | None = None, group_by: Iterable[str] = ()
    ) -> Flow[UsageReport]:
        """Returns usage totals, optionally grouped by ``day``, ``agent``, ``model``, ``user`` and ``key``.

        ``begin`` and ``end`` are timestamps, or days such as ``2026-05-01``, both inclusive. The default is the last 30
        days.
        """
        query = given(**{"from": begin, "to": end}, group_by=",".join(group_by) or None, limit=_USAGE_PAGE)
        items: list[UsageItem] = []
        while True:
            report = yield from self._send(Request("GET", "/usage/", one(UsageReport), query=query))
            items += report.usage
            if not (report.has_more and report.usage):
                return report.model_copy(update={"usage": items})
            query["offset"] = len(items)

    def session(self, session_id: str, *, tools: Tools = ()) -> SessionHandle[R]:
        """Returns a handle for a session without sending a request.

        ``tools`` are called when a turn of the session waits for their results.
        """
        return SessionHandle(self._runner, self._policy, session_id, tools)


class Client(_Service[SyncRunner]):
    """A blocking client that can be shared between threads.

    ``base_url`` and ``api_key`` default to the environment variables ``AES_BASE_URL`` and ``AES_API_KEY``. To
    authenticate with a bearer token instead of a key, pass ``token``. ``timeout`` is in seconds per attempt. To use a
    proxy or custom certificates, pass your own ``httpx`` client as ``http``; ``close`` doesn't close it.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        token: str | None = None,
        timeout: float = _TIMEOUT_SECONDS,
        retries: RetryPolicy | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        address = Address.of(base_url, api_key, token, timeout)
        self._closes = http is None
        super().__init__(SyncRunner(address, http or httpx.Client(limits=_LIMITS)), retries or RetryPolicy())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, except those of your own ``http`` client."""
        if self._closes:
            self._runner.http.close()


class AsyncClient(_Service[AsyncRunner]):
    """An asyncio client that accepts the same arguments as ``Client``.

    Await its operations, and iterate over lists with ``async for``.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        token: str | None = None,
        timeout: float = _TIMEOUT_SECONDS,
        retries: RetryPolicy | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        address = Address.of(base_url, api_key, token, timeout)
        self._closes = http is None
        super().__init__(AsyncRunner(address, http or httpx.AsyncClient(limits=_LIMITS)), retries or RetryPolicy())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections, except those of your own ``http`` client."""
        if self._closes:
            await self._runner.http.aclose()
