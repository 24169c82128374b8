"""Reads the body of an upload as it arrives."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from time import monotonic
from typing import Any, Final

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from libs.contracts.errors import InvalidRequest, ServiceError, TooLarge
from services.gateway.entrypoints.door.bodies import drain
from services.gateway.entrypoints.door.queries import IdempotencyKey
from services.gateway.entrypoints.door.routes import RequestBody

MAX_UPLOAD: Final = 256 * 1024 * 1024
"""The maximum size of a request, which can contain several files. The size of each file is limited elsewhere."""
_WINDOW_SECONDS: Final = 60.0
_WINDOW_BYTES: Final = 64 * 1024
_FILE: Final = {"type": "string", "format": "binary"}


class UploadStream:
    """The body of an upload, which can be read once. ``problem``: why it ended early, if it did.

    At least 64 KiB must arrive for every ``window`` seconds of waiting for the client, because slow uploads block
    connections.
    """

    def __init__(
        self,
        receive: Receive,
        headers: Mapping[str, str],
        *,
        most: int = MAX_UPLOAD,
        window: float = _WINDOW_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.problem: ServiceError | ClientDisconnect | None = None
        self._receive = receive
        self._most = most
        self._declared = headers.get("content-length", "")
        self._waits_for_go_ahead = headers.get("expect", "").lower() == "100-continue"
        self._begun = False
        self._ended = False
        self._stopped = False
        self._waiting: asyncio.Future[Message] | None = None
        self._window = window
        self._clock = clock
        self._waited = 0.0
        self._brought = 0

    def check_length(self) -> None:
        """Raises ``TooLarge`` if the ``Content-Length`` exceeds the limit."""
        if self._declared.isascii() and self._declared.isdigit() and int(self._declared) > self._most:
            raise TooLarge.beyond(self._most, "The body")

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yields the body in chunks. Ends early after ``stop``. Raises the ``problem``, if any."""
        taken = 0
        while not (self._ended or self._stopped):
            try:
                message = await self._next()
                taken += len(message.get("body", b""))
                if taken > self._most:
                    raise TooLarge.beyond(self._most, "The body")
            except (ServiceError, ClientDisconnect) as problem:
                self.problem = problem
                raise
            except asyncio.CancelledError:
                if self._stopped:
                    return
                raise
            if message.get("body"):
                yield message["body"]

    async def stop(self) -> None:
        """Stops forwarding. Discards part of the rest, so that a client that is still sending gets the response."""
        if self._stopped:
            return
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
            # Lets the reader notice the stop before another task reads.
            await asyncio.sleep(0)
        if self._ended or isinstance(self.problem, ClientDisconnect):
            return
        if self._begun or not self._waits_for_go_ahead:
            await drain(self._receive)

    async def _next(self) -> Message:
        self._begun = True
        self._waiting = asyncio.ensure_future(self._receive())
        while not self._waiting.done():
            if self._waited >= self._window:
                self._begin_window()
            began = self._clock()
            await asyncio.wait({self._waiting}, timeout=self._window - self._waited)
            self._waited += self._clock() - began
        message = self._waiting.result()
        if message["type"] != "http.request":
            raise ClientDisconnect
        self._ended = not message.get("more_body")
        self._brought += len(message.get("body", b""))
        return message

    def _begin_window(self) -> None:
        """Starts the next window. Raises ``InvalidRequest`` if too little arrived in the previous window."""
        if self._brought < _WINDOW_BYTES:
            if self._waiting is not None:
                self._waiting.cancel()
            raise InvalidRequest(
                f"The upload is too slow: send at least {_WINDOW_BYTES} bytes every {self._window:g} seconds."
            )
        self._waited, self._brought = 0.0, 0


def _form(file: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"file": file}, "required": ["file"]}
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}


class UploadBody(RequestBody):
    """Dependency that provides a multipart form."""

    request_body = _form({"type": "array", "items": _FILE})

    async def __call__(self, request: Request, _key: IdempotencyKey = None) -> UploadStream:
        return UploadStream(request.receive, request.headers)


class SingleUploadBody(UploadBody):
    """Like ``UploadBody``, for a form with a single file."""

    request_body = _form(_FILE)
