"""The blocking and the asynchronous runner of flows."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from aes_client.errors import NotConfigured
from aes_client.flows import (
    Call,
    Close,
    Emit,
    Emitting,
    Flow,
    NeverConnected,
    Open,
    OpenResponse,
    Pause,
    Read,
    Send,
    Step,
    Together,
)
from aes_client.requests import Request
from aes_client.retries import RetryPolicy

T = TypeVar("T")
# Each open stream holds a connection.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)


@dataclass
class Connection:
    """The service's address, the credential and the retry policy. ``timeout`` is in seconds per attempt.

    ``is_made`` is true once the service has responded.
    """

    base_url: str
    headers: dict[str, str] = field(repr=False)
    timeout: float
    policy: RetryPolicy
    is_made: bool = False

    @classmethod
    def to(
        cls, base_url: str | None, api_key: str | None, token: str | None, timeout: float, policy: RetryPolicy
    ) -> Connection:
        """Returns a connection. Missing values default to ``AES_BASE_URL`` and ``AES_API_KEY``.

        Raises ``NotConfigured`` if a value is missing or the URL is invalid.
        """
        url = base_url or os.environ.get("AES_BASE_URL", "")
        if not url.startswith(("http://", "https://")):
            wrong = f"Invalid service URL {url!r}" if url else "The service URL is missing"
            raise NotConfigured(
                f"{wrong}. Set base_url or AES_BASE_URL, for example to the address that `./aes up` prints."
            )
        key = None if token else api_key or os.environ.get("AES_API_KEY")
        if not (key or token):
            raise NotConfigured(
                "The credential is missing. Pass api_key or token, or set AES_API_KEY. `./aes up` prints the "
                "development company's key and stores it in .aes/development-key."
            )
        headers = {"Authorization": f"Bearer {token}"} if token else {"x-api-key": str(key)}
        return cls(url.rstrip("/").removesuffix("/api/v1") + "/api/v1", headers, timeout, policy)

    @contextmanager
    def attempt(self, http: httpx.Client | httpx.AsyncClient, request: Request[Any]) -> Iterator[httpx.Request]:
        """Yields the ``httpx`` request to send.

        Raises ``NeverConnected`` if connecting fails and the service has never responded.
        """
        seconds = request.timeout or self.timeout
        is_yaml = isinstance(request.body, str)
        headers = {**self.headers, **request.headers}
        with ExitStack() as files:
            built = http.build_request(
                request.method,
                self.base_url + request.path,
                params=dict(request.query) or None,
                headers={**headers, "Content-Type": "application/yaml"} if is_yaml else headers,
                content=request.body.encode() if is_yaml else None,
                json=None if is_yaml else request.body,
                files={"file": files.enter_context(request.upload.opened())} if request.upload else None,
                timeout=httpx.Timeout(seconds, connect=min(seconds, 10.0)),
            )
            try:
                yield built
            except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
                if self.is_made:
                    raise
                raise NeverConnected(problem) from problem
            self.is_made = True


def _resumed(flow: Generator[Any, Any, Any], outcome: Any = None, *, problem: Exception | None = None) -> Any:
    """Resumes a flow with a step's outcome or exception. Returns the next step, or ``None`` at the end."""
    try:
        return flow.send(outcome) if problem is None else flow.throw(problem)
    except StopIteration:
        return None


def _emitting(flow: Flow[T]) -> Emitting[T]:
    yield Emit((yield from flow))


class SyncRunner:
    """Runs flows in the calling thread."""

    awaits = False

    def __init__(self, connection: Connection, http: httpx.Client | None) -> None:
        self.policy = connection.policy
        self.http = http or httpx.Client(limits=_LIMITS)
        self._connection = connection

    def run(self, flow: Flow[T]) -> T:
        [result] = self.iterate(_emitting(flow))
        return result

    def iterate(self, flow: Emitting[T]) -> Iterator[T]:
        with ExitStack() as opened:
            opened.callback(flow.close)
            step = _resumed(flow)
            while step is not None:
                if isinstance(step, Emit):
                    yield step.item
                    step = _resumed(flow)
                    continue
                try:
                    outcome = self._perform(step, opened)
                except Exception as problem:
                    step = _resumed(flow, problem=problem)
                else:
                    step = _resumed(flow, outcome)

    def _perform(self, step: Step, opened: ExitStack) -> Any:
        if isinstance(step, Send):
            return self._send(step.request, stream=False)
        if isinstance(step, Open):
            response = self._send(step.request, stream=True)
            opened.callback(response.close)
            if response.is_error:
                response.read()
            return OpenResponse(response, response.iter_bytes())
        if isinstance(step, Read):
            return next(step.answer.pieces, b"")
        if isinstance(step, Close):
            return step.answer.response.close()
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Call):
            return step.function(*step.arguments, **(step.keywords or {}))
        return self._together(step)

    def _send(self, request: Request[Any], *, stream: bool) -> httpx.Response:
        with self._connection.attempt(self.http, request) as built:
            return self.http.send(built, stream=stream)

    def _together(self, step: Together) -> list[Any]:
        with ThreadPoolExecutor(max(1, len(step.flows))) as threads:
            runs = [threads.submit(self.run, flow) for flow in step.flows]
            return [run.exception() or run.result() for run in runs]


class AsyncRunner:
    """Runs flows in the caller's event loop."""

    awaits = True

    def __init__(self, connection: Connection, http: httpx.AsyncClient | None) -> None:
        self.policy = connection.policy
        self.http = http or httpx.AsyncClient(limits=_LIMITS)
        self._connection = connection

    async def run(self, flow: Flow[T]) -> T:
        [result] = [each async for each in self.iterate(_emitting(flow))]
        return result

    async def iterate(self, flow: Emitting[T]) -> AsyncIterator[T]:
        async with AsyncExitStack() as opened:
            opened.callback(flow.close)
            step = _resumed(flow)
            while step is not None:
                if isinstance(step, Emit):
                    yield step.item
                    step = _resumed(flow)
                    continue
                try:
                    outcome = await self._perform(step, opened)
                except Exception as problem:
                    step = _resumed(flow, problem=problem)
                else:
                    step = _resumed(flow, outcome)

    async def _perform(self, step: Step, opened: AsyncExitStack) -> Any:
        if isinstance(step, Send):
            return await self._send(step.request, stream=False)
        if isinstance(step, Open):
            response = await self._send(step.request, stream=True)
            opened.push_async_callback(response.aclose)
            if response.is_error:
                await response.aread()
            return OpenResponse(response, response.aiter_bytes())
        if isinstance(step, Read):
            return await anext(step.answer.pieces, b"")
        if isinstance(step, Close):
            return await step.answer.response.aclose()
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Call):
            if inspect.iscoroutinefunction(step.function):
                return await step.function(*step.arguments, **(step.keywords or {}))
            return await asyncio.to_thread(step.function, *step.arguments, **(step.keywords or {}))
        return await asyncio.gather(*map(self.run, step.flows), return_exceptions=True)

    async def _send(self, request: Request[Any], *, stream: bool) -> httpx.Response:
        with self._connection.attempt(self.http, request) as built:
            return await self.http.send(built, stream=stream)
