"""The time between two polls of a batch consumer."""

from typing import Final

# A fetch and a batch cost about the same for one record as for twenty. Where many come the processor is what is short:
# batches are fewer and fuller then.
_BUSY_PACE: Final = 12
_BUSY_RECORDS_PER_SECOND: Final = 300.0
_RATE_SECONDS: Final = 1.0
# Fewer are many while the event loop is late: nobody waits for a batch as for what else the process does.
_LATE_RECORDS_PER_SECOND: Final = 60.0
_LATE_SECONDS: Final = 0.003
# What a single stall counts for, as a neighbour on the machine makes.
_LATEST_SECONDS: Final = 0.02
_LATE_WEIGHT: Final = 0.1


class PollPace:
    """Polls ``seconds`` apart while records come, twelve times as far where many do. Times are those of the loop.

    ``next_at``: the time of the next poll.
    """

    def __init__(self, seconds: float) -> None:
        self.next_at = 0.0
        self._seconds = seconds
        self._polled_at = 0.0
        # Records a second, lately: a single poll says little.
        self._rate = 0.0
        self._late = 0.0

    def rested(self, late: float) -> None:
        """Takes note of how much too late a rest has ended, if only one that let others have the event loop."""
        self._late += _LATE_WEIGHT * (min(late, _LATEST_SECONDS) - self._late)

    def polled(self, records: int, now: float, *, most: int) -> None:
        """Takes note of a poll; after one of ``most`` records there are more at once."""
        elapsed = max(now - self._polled_at, 0.001)
        self._rate += min(elapsed / _RATE_SECONDS, 1.0) * (records / elapsed - self._rate)
        self._polled_at = now
        if 0 < records < most:
            many = _LATE_RECORDS_PER_SECOND if self._late > _LATE_SECONDS else _BUSY_RECORDS_PER_SECOND
            self.next_at = now + self._seconds * (_BUSY_PACE if self._rate > many else 1)
