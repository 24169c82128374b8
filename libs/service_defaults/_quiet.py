"""Keeps a library that repeats itself from filling the logs."""

import logging
import time
from collections.abc import Callable
from typing import Final

_PAUSE_SECONDS: Final = 10.0
_MOST_MESSAGES: Final = 1000


class OncePerPause(logging.Filter):
    """Lets the same message through once in ``pause`` seconds; the next one tells how many were left out.

    With the broker away aiokafka writes more than a hundred lines a second, from each process.
    """

    def __init__(self, pause: float = _PAUSE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._pause = pause
        self._clock = clock
        self._last: dict[tuple[str, str], float] = {}
        self._left_out: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = (record.name, str(record.msg)), self._clock()
        last = self._last.get(key)
        if last is not None and now - last < self._pause:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return False
        if len(self._last) >= _MOST_MESSAGES:
            self._last.clear()
            self._left_out.clear()
        self._last[key] = now
        if left_out := self._left_out.pop(key, 0):
            record.msg = f"{record.msg} (and {left_out} times more before)"
        return True
