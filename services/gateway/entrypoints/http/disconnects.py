"""Callers who close the connection while their answer is awaited."""

import asyncio
from types import TracebackType
from typing import Final, Self

from starlette.types import Message, Receive, Scope

_DELAY_SECONDS: Final = 1.0


class DisconnectWatcher:
    """Cancels the request's task when the client closes the connection.

    Watching starts a second after the request has been read: most answers are there by then and need no watcher.
    Multipart uploads are not watched: their body is passed on while it is read, and that notices by itself.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.disconnected = False
        self._receive = receive
        self._has_no_body = scope["method"] in ("GET", "DELETE", "HEAD", "OPTIONS")
        self._is_upload = any(
            name == b"content-type" and value.startswith(b"multipart/") for name, value in scope["headers"]
        )
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """Stands in for the server's ``receive``, so that the end of the body is known."""
        message = await self._receive()
        if not message.get("more_body") and self._timer is None and not self._is_upload:
            self._begin()
        return message

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        if self._has_no_body:
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_DELAY_SECONDS, self._start_watching)

    def _start_watching(self) -> None:
        self._watcher = asyncio.create_task(self._watch(), name="http.disconnect")

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        if self._task is not None:
            self._task.cancel()
