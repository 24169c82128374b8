"""Limits on what a WebSocket may cost, which uvicorn's protocol does not have."""

import asyncio
import logging
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LARGEST_MESSAGE: Final = 512 * 1024
PING_SECONDS: Final = 20.0
_UNREAD_SECONDS: Final = 60.0
# Uvicorn logs each connection with its query, where public keys stand.
_log: Final = logging.getLogger("uvicorn.websocket")
_log.setLevel(logging.WARNING)


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """Aborts a connection whose client takes nothing of what it is sent for 60 s; its handler would wait for ever."""

    unread_seconds: float = _UNREAD_SECONDS
    _reader_timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _log

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reader_timer is None:
            self._start_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._reader_timer = self.loop.call_later(self.unread_seconds, self._check_reader, unsent)

    def _check_reader(self, unsent_before: int) -> None:
        self._reader_timer = None
        if self.transport.get_write_buffer_size() < unsent_before:
            self._start_timer()
        else:
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None
