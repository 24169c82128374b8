"""Bounds on what a connection may cost, which the server itself does not have."""

import asyncio
import fcntl
import struct
import termios
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD: Final = 64 * 1024
_HEAD_SECONDS: Final = 60.0
_UNREAD_SECONDS: Final = 60.0
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 32\r\nconnection: close\r\n\r\n"
    b"The request's head is too large."
)


class BoundedConnection(HttpToolsProtocol):
    """A head larger than 64 KiB is answered with 431; one that does not come within 60 s ends the connection.

    Without them anybody, with no key at all, could fill the memory with one endless header. And who takes nothing of
    an answer for 60 s is not served any longer: his connection, and what waits for him, would stay for ever.
    """

    head_seconds: float = _HEAD_SECONDS
    unread_seconds: float = _UNREAD_SECONDS
    _in_head: bool = True
    _head_size: int = 0
    _patience: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._has_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            if self._patience is not None:
                self._stop_waiting()
            return
        self._head_size += len(data)
        if self._head_size > LARGEST_HEAD and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._patience is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        # A connection that is being closed is over only when the rest has been taken, too.
        if not self.transport.is_closing():
            self._has_read()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(self.unread_seconds, self._look_at_reader, self._left_to_take())

    def _look_at_reader(self, left_before: int) -> None:
        self._unread = None
        if self._left_to_take() < left_before:
            self._wait_for_reader()
        else:
            self.transport.abort()

    def _left_to_take(self) -> int:
        """Bytes. The system's part counts: of a slow reader's megabytes there it tells nothing for minutes."""
        left: int = self.transport.get_write_buffer_size()
        connection = self.transport.get_extra_info("socket")
        try:
            sent = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
        except (OSError, ValueError):
            # Systems other than Linux may not know; then only what is left here is looked at.
            return left
        return left + int(struct.unpack("i", sent)[0])

    def _has_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
