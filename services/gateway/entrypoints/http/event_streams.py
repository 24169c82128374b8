"""Server-sent events: their form, and the open streams of each key, which end when it is revoked."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from libs.contracts.errors import AuthenticationFailed
from services.gateway.entrypoints.http.measurements import OPEN_STREAMS

KEEP_ALIVE: Final = b": keep-alive\n\n"
_REMEMBERED: Final = 10_000


def render_event(name: str, data: bytes) -> bytes:
    """One event; every line of the data is marked as such."""
    lines = b"\ndata: ".join(data.splitlines()) if b"\n" in data or b"\r" in data else data
    return b"event: " + name.encode() + b"\ndata: " + lines + b"\n\n"


class EventStreams:
    def __init__(self) -> None:
        self._open: defaultdict[str, set[asyncio.Task[object]]] = defaultdict(set)
        self._ended: set[asyncio.Task[object]] = set()
        self._revoked: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def opened(self, key_id: str) -> Iterator[None]:
        """While the running task sends a stream to that key's holder. Raises AuthenticationFailed when it ended."""
        # Between the check of a key and the first event of a turn lie seconds.
        if key_id in self._revoked:
            raise AuthenticationFailed("The API key has been revoked.")
        task = asyncio.current_task()
        assert task is not None
        self._open[key_id].add(task)
        OPEN_STREAMS.inc()
        try:
            yield
        finally:
            OPEN_STREAMS.dec()
            self._open[key_id].discard(task)
            if not self._open[key_id]:
                del self._open[key_id]

    def end(self, key_id: str) -> None:
        """Cancel the tasks that send streams to that key's holder; those that are about to are refused."""
        self._revoked[key_id] = None
        if len(self._revoked) > _REMEMBERED:
            self._revoked.popitem(last=False)
        for task in list(self._open.get(key_id, ())):
            self._ended.add(task)
            task.add_done_callback(self._ended.discard)
            task.cancel()

    def was_ended(self) -> bool:
        """Whether ``end`` is why the running task was cancelled."""
        return asyncio.current_task() in self._ended
