"""How often and how long a message is tried before it is given up."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from libs.eventing._bus import BusUnavailable
from libs.persistence import is_contention, is_outage


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Waits grow from ``first`` to ``longest`` seconds; ``give_up_after`` seconds make a message poison.

    An outage of the database or the bus is nobody's fault: it does not count towards giving up. Locks that are not
    to be had do count: a deadlock may be of the message's own making.
    """

    first: float = 0.05
    longest: float = 10.0
    give_up_after: float = 15 * 60.0
    clock: Callable[[], float] = field(default=time.monotonic)

    def wait(self, attempt: int) -> float:
        """Seconds before attempt number ``attempt`` + 1, spread so that retries do not march in step."""
        return min(self.longest, self.first * 2.0 ** min(attempt, 16)) * random.uniform(0.5, 1.0)

    @staticmethod
    def is_outage(problem: BaseException) -> bool:
        return isinstance(problem, BusUnavailable) or (is_outage(problem) and not is_contention(problem))
