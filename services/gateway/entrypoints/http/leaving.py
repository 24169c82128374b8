"""Notices callers who go away while their answer is awaited."""

import asyncio
from types import TracebackType
from typing import Final, Self

from services.gateway.entrypoints.http.bodies import Receive

_PATIENCE_SECONDS: Final = 1.0


class Leaving:
    """Cancels the surrounding task when the client closes the connection.

    Watching starts after a second: most answers are there by then and need no watcher.
    """

    def __init__(self, receive: Receive) -> None:
        self.gone = False
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(self._watch(), name="http.leaving")

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if self._task is not None:
            self._task.cancel()
