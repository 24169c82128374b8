"""The time that a poll waits for records."""

from typing import Final

_BUSY_SECONDS: Final = 0.5
_REST_SECONDS: Final = 5.0
_UNTIL_REST_SECONDS: Final = 10.0


class PollWait:
    """Half a second, and five once there has been nothing to do for ten. Records end it, and so do wakes.

    Between two polls a consumer sees to what has become due meanwhile. Times are those of the loop.
    """

    def __init__(self) -> None:
        self._rests_at: float | None = None

    def seconds(self, now: float, *, busy: bool) -> float:
        """``busy``: records have come since the last time, or something is still to be done about earlier ones."""
        if busy or self._rests_at is None:
            self._rests_at = now + _UNTIL_REST_SECONDS
        return _REST_SECONDS if now >= self._rests_at else _BUSY_SECONDS
