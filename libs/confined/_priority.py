"""A low CPU priority for slow background work."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_NICENESS: Final = 5
_TRIES: Final = 5
# With autogroups, Linux schedules by session, and only the session's nice value counts.
_SESSION: Final = Path("/proc/self/autogroup")


def lower_priority() -> None:
    """Lowers this process's CPU share to a third of other processes' shares, if the system allows it.

    The share matters only when CPU is scarce.
    """
    with suppress(OSError):
        os.nice(_NICENESS)
        # Linux limits the rate of such changes for all unprivileged processes together.
        for _ in range(_TRIES):
            try:
                _SESSION.write_text(str(_NICENESS))
            except BlockingIOError:
                time.sleep(0.1)
            else:
                return
