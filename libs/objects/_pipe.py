"""Makes an asynchronous stream readable as a file in a thread."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256


class PipeCancelled(Exception):
    """The stream was cancelled."""


class Pipe:
    """A pipe from the event loop to a thread. ``problem`` is the error that the stream raised, if any."""

    def __init__(self, pieces: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.size = 0
        self.problem: BaseException | None = None
        self._pieces = pieces
        self._loop = loop
        self._digest = sha256()
        self._waiting = bytearray()
        self._ended = False
        self._cancelled = False
        # This is set only in the loop. If the thread set it, the loop might already have started the step.
        self._step_in_work: asyncio.Task[object] | None = None

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def cancel(self) -> None:
        """Makes the next read in the thread fail. Call this in the event loop."""
        self._cancelled = True
        if self._step_in_work is not None:
            self._step_in_work.cancel()

    def read(self, count: int = -1) -> bytes:
        """Reads like a file's ``read``. Returns fewer than ``count`` bytes only at the end of the stream."""
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
        if self._cancelled:
            raise PipeCancelled
        self._step_in_work = asyncio.current_task()
        try:
            return await anext(self._pieces, None)
        finally:
            self._step_in_work = None
