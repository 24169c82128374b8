"""The blocking and the asynchronous client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx

from aes_client import operations
from aes_client.flows import Flow
from aes_client.models import UsageItem, UsageReport
from aes_client.requests import Request, given, one, one_or_none
from aes_client.resource import R, operation
from aes_client.resources.events import Events
from aes_client.resources.files import Files
from aes_client.resources.knowledge_bases import KnowledgeBases
from aes_client.resources.sessions import SessionHandle, Sessions
from aes_client.resources.turns import Actions
from aes_client.retries import RetryPolicy
from aes_client.runners import AsyncRunner, Connection, SyncRunner
from aes_client.tools import Tools

if TYPE_CHECKING:
    from typing_extensions import Self

Http = TypeVar("Http")
_USAGE_PAGE = 1000


class _Service(operations.Service[R], Generic[R, Http]):
    """The base class of ``Client`` and ``AsyncClient``."""

    _runs: type[R]

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: RetryPolicy | None = None,
        http: Http | None = None,
    ) -> None:
        connection = Connection.to(base_url, api_key, token, timeout, retries or RetryPolicy())
        own: Any = http
        runner = self._runs(connection, own)
        super().__init__(runner)
        self.sessions = Sessions(runner)
        self.actions = Actions(runner)
        self.events = Events(runner)
        self.files = Files(runner)
        self.knowledge_bases = KnowledgeBases(runner)
        self._closes = http is None

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
        """Sends a request to any route, even one that has no method in this client.

        ``path`` is relative to ``/api/v1``. Returns the parsed JSON response, or ``None`` if the response is empty.
        """
        request: Request[Any] = Request(method.upper(), path, one_or_none, body=body, query=query or {})
        return request.with_key(idempotency_key)

    @operation
    def usage(
        self, *, begin: str | None = None, end: str | None = None, group_by: Iterable[str] = ()
    ) -> Flow[UsageReport]:
        """Returns usage totals, grouped by any of ``day``, ``agent``, ``model``, ``user`` and ``key``.

        ``begin`` and ``end`` are UTC days such as ``2026-05-01``, both inclusive. If ``end`` is a timestamp, it's
        exclusive. By default, the report covers the last 30 days.
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
        """Returns a handle for a session without sending a request. ``tools`` implement the agent's client tools."""
        return SessionHandle(self._runner, session_id, tools)


class Client(_Service[SyncRunner, httpx.Client]):
    """A blocking client that can be shared between threads.

    ``base_url`` and ``api_key`` default to the environment variables ``AES_BASE_URL`` and ``AES_API_KEY``. To
    authenticate with a bearer token instead of a key, pass ``token``. ``timeout`` is in seconds per attempt. To use a
    proxy or custom certificates, pass your own ``httpx`` client as ``http``.
    """

    _runs = SyncRunner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, except those of your own ``http`` client."""
        if self._closes:
            self._runner.http.close()


class AsyncClient(_Service[AsyncRunner, httpx.AsyncClient]):
    """An asyncio client with the arguments of ``Client``. Await operations, and iterate lists with ``async for``."""

    _runs = AsyncRunner

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections, except those of your own ``http`` client."""
        if self._closes:
            await self._runner.http.aclose()
