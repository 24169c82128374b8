"""An asynchronous stream as the file object that a client in a thread reads."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256


class BrokenOff(Exception):
    """Nobody wants the rest any more."""


class Pipe:
    """Read from one thread, fed by the event loop; hashes and measures what passes.

    ``problem`` is what the stream raised.
    """

    def __init__(self, pieces: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.size = 0
        self.problem: BaseException | None = None
        self._pieces = pieces
        self._loop = loop
        self._digest = sha256()
        self._waiting = bytearray()
        self._ended = False
        self._broken = False
        # Known to the loop alone: a thread would note a step only after the loop may have begun it.
        self._step_under_way: asyncio.Task[object] | None = None

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def break_off(self) -> None:
        """Make the reading thread fail. To be called from the loop."""
        self._broken = True
        if self._step_under_way is not None:
            self._step_under_way.cancel()

    def read(self, count: int = -1) -> bytes:
        """As of a file: fewer than ``count`` bytes only at the end."""
        while not self._ended and (count < 0 or len(self._waiting) < count):
            piece = self._pull()
            if piece is None:
                self._ended = True
            else:
                self._digest.update(piece)
                self.size += len(piece)
                self._waiting += piece
        count = len(self._waiting) if count < 0 else count
        taken = bytes(self._waiting[:count])
        del self._waiting[:count]
        return taken

    def _pull(self) -> bytes | None:
        try:
            return asyncio.run_coroutine_threadsafe(self._step(), self._loop).result()
        except BaseException as problem:
            self.problem = problem
            raise

    async def _step(self) -> bytes | None:
        if self._broken:
            raise BrokenOff
        self._step_under_way = asyncio.current_task()
        try:
            return await anext(self._pieces, None)
        finally:
            self._step_under_way = None
