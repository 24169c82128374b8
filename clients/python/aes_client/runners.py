"""The blocking and the asynchronous runner, which execute the steps of flows and contain no other logic."""

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

T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """The service's address and the credential. ``timeout`` is in seconds per attempt."""

    base_url: str
    headers: dict[str, str] = field(repr=False)
    timeout: float

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, token: str | None, timeout: float) -> Address:
        """Returns the address. Missing values default to ``AES_BASE_URL`` and ``AES_API_KEY``.

        Raises ``NotConfigured`` if a value is missing or the URL is invalid.
        """
        url = base_url or os.environ.get("AES_BASE_URL", "")
        if not url.startswith(("http://", "https://")):
            wrong = f"Invalid service URL {url!r}" if url else "The service URL is missing"
            raise NotConfigured(
                f"{wrong}. Set base_url or AES_BASE_URL, for example to http://127.0.0.1:8080, which `./aes up` prints."
            )
        key = None if token else api_key or os.environ.get("AES_API_KEY")
        if not (key or token):
            raise NotConfigured(
                "The credential is missing. Pass api_key or token, or set AES_API_KEY. `./aes up` prints the key of "
                "the development company and stores it in .aes/development-key."
            )
        headers = {"Authorization": f"Bearer {token}"} if token else {"x-api-key": str(key)}
        return cls(url.rstrip("/").removesuffix("/api/v1") + "/api/v1", headers, timeout)

    def arguments(self, request: Request[Any], files: list[Any] | None) -> dict[str, Any]:
        """Returns the arguments for ``httpx.Client.build_request``."""
        seconds = request.timeout or self.timeout
        is_yaml = isinstance(request.body, str)
        headers = {**self.headers, **request.headers}
        return {
            "method": request.method,
            "url": self.base_url + request.path,
            "params": dict(request.query) or None,
            "headers": {**headers, "Content-Type": "application/yaml"} if is_yaml else headers,
            "content": request.body.encode() if is_yaml else None,
            "json": None if is_yaml else request.body,
            "files": files,
            "timeout": httpx.Timeout(seconds, connect=min(seconds, 10.0)),
        }


class _Contact:
    """Remembers whether the service has ever responded to this client."""

    def __init__(self) -> None:
        self._made = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches an attempt. Raises ``NeverConnected`` if connecting fails and the service has never responded."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
            if self._made:
                raise
            raise NeverConnected(problem) from problem
        self._made = True


@dataclass(frozen=True)
class _End:
    """The end of a flow, with its result."""

    value: Any


def _resumed(flow: Generator[Any, Any, Any], outcome: Any = None, *, problem: Exception | None = None) -> Any:
    """Resumes a flow with a step's outcome or exception. Returns the next step, or ``_End``."""
    try:
        return flow.send(outcome) if problem is None else flow.throw(problem)
    except StopIteration as end:
        return _End(end.value)


class SyncRunner:
    """Runs flows in the calling thread."""

    awaits = False

    def __init__(self, address: Address, http: httpx.Client) -> None:
        self.address = address
        self.http = http
        self._contact = _Contact()

    def run(self, flow: Flow[T]) -> T:
        with ExitStack() as opened:
            opened.callback(flow.close)
            step = _resumed(flow)
            while not isinstance(step, _End):
                step = self._advance(flow, step, opened)
            result: T = step.value
            return result

    def iterate(self, flow: Emitting[T]) -> Iterator[T]:
        with ExitStack() as opened:
            opened.callback(flow.close)
            step = _resumed(flow)
            while not isinstance(step, _End):
                if isinstance(step, Emit):
                    yield step.item
                    step = _resumed(flow)
                else:
                    step = self._advance(flow, step, opened)

    def _advance(self, flow: Generator[Any, Any, Any], step: Step, opened: ExitStack) -> Any:
        try:
            outcome = self._perform(step, opened)
        except Exception as problem:
            return _resumed(flow, problem=problem)
        return _resumed(flow, outcome)

    def _perform(self, step: Step, opened: ExitStack) -> Any:
        if isinstance(step, Send):
            return self._send(step.request, stream=False)
        if isinstance(step, Open):
            response = self._send(step.request, stream=True)
            opened.callback(response.close)
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
        with ExitStack() as files:
            parts = [("file", files.enter_context(request.upload.opened()))] if request.upload else None
            built = self.http.build_request(**self.address.arguments(request, parts))
            with self._contact.watched():
                return self.http.send(built, stream=stream)

    def _together(self, step: Together) -> list[Any]:
        with ThreadPoolExecutor(max(1, len(step.flows))) as threads:
            runs = [threads.submit(self.run, flow) for flow in step.flows]
            return [run.exception() or run.result() for run in runs]


class AsyncRunner:
    """Runs flows in the caller's event loop."""

    awaits = True

    def __init__(self, address: Address, http: httpx.AsyncClient) -> None:
        self.address = address
        self.http = http
        self._contact = _Contact()

    async def run(self, flow: Flow[T]) -> T:
        async with AsyncExitStack() as opened:
            opened.callback(flow.close)
            step = _resumed(flow)
            while not isinstance(step, _End):
                step = await self._advance(flow, step, opened)
            result: T = step.value
            return result

    async def iterate(self, flow: Emitting[T]) -> AsyncIterator[T]:
        async with AsyncExitStack() as opened:
            opened.callback(flow.close)
            step = _resumed(flow)
            while not isinstance(step, _End):
                if isinstance(step, Emit):
                    yield step.item
                    step = _resumed(flow)
                else:
                    step = await self._advance(flow, step, opened)

    async def _advance(self, flow: Generator[Any, Any, Any], step: Step, opened: AsyncExitStack) -> Any:
        try:
            outcome = await self._perform(step, opened)
        except Exception as problem:
            return _resumed(flow, problem=problem)
        return _resumed(flow, outcome)

    async def _perform(self, step: Step, opened: AsyncExitStack) -> Any:
        if isinstance(step, Send):
            return await self._send(step.request, stream=False)
        if isinstance(step, Open):
            response = await self._send(step.request, stream=True)
            opened.push_async_callback(response.aclose)
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
        with ExitStack() as files:
            parts = [("file", files.enter_context(request.upload.opened()))] if request.upload else None
            built = self.http.build_request(**self.address.arguments(request, parts))
            with self._contact.watched():
                return await self.http.send(built, stream=stream)
