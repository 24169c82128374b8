"""The body of an upload, passed on while it comes in."""

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any, Final

from libs.contracts.errors import InvalidRequest, ServiceError, TooLarge
from services.gateway.entrypoints.http.bodies import ClientGone, Receive, drain

MAX_UPLOAD: Final = 256 * 1024 * 1024
"""Bytes of one request, which may carry several files; the limit of each of them is the owner's."""
_PAUSE_SECONDS: Final = 60.0


class Incoming:
    """Read once, by one task at a time. ``problem`` is why it ended before its end."""

    def __init__(self, receive: Receive, headers: dict[bytes, bytes], *, most: int = MAX_UPLOAD) -> None:
        self.problem: ServiceError | ClientGone | None = None
        self._receive = receive
        self._most = most
        self._declared = headers.get(b"content-length", b"")
        self._waits_for_go_ahead = headers.get(b"expect", b"").lower() == b"100-continue"
        self._begun = False
        self._ended = False
        self._stopped = False
        self._waiting: asyncio.Future[MutableMapping[str, Any]] | None = None

    def check_length(self) -> None:
        """Raises ``TooLarge`` when the caller says that the body is."""
        if self._declared.isdigit() and int(self._declared) > self._most:
            raise self._too_large()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body; ends early when there is a ``problem`` or ``stop`` was called."""
        taken = 0
        while not (self._ended or self._stopped):
            try:
                message = await self._next()
                taken += len(message.get("body", b""))
                if taken > self._most:
                    raise self._too_large()
            except (ServiceError, ClientGone) as problem:
                self.problem = problem
                raise
            except asyncio.CancelledError:
                if self._stopped:
                    return
                raise
            if message.get("body"):
                yield message["body"]

    async def stop(self) -> None:
        """Pass on nothing more, and take in a bounded rest, so that the answer reaches who sends without waiting."""
        if self._stopped:
            return
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
            # The reader gets to see it before somebody else reads.
            await asyncio.sleep(0)
        if self._ended or isinstance(self.problem, ClientGone):
            return
        if self._begun or not self._waits_for_go_ahead:
            await drain(self._receive)

    async def _next(self) -> MutableMapping[str, Any]:
        self._begun = True
        self._waiting = asyncio.ensure_future(self._receive())
        done, _ = await asyncio.wait({self._waiting}, timeout=_PAUSE_SECONDS)
        if not done:
            self._waiting.cancel()
            raise InvalidRequest(f"The body paused for more than {_PAUSE_SECONDS:g} seconds.")
        message = self._waiting.result()
        if message["type"] != "http.request":
            raise ClientGone
        self._ended = not message.get("more_body")
        return message

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body is larger than {self._most} bytes.")
