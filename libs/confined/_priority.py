"""Priority of processes whose work takes long and can wait."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_NICENESS: Final = 5
_TRIES: Final = 5
# Where Linux shares processors between sessions of processes, only the niceness of the session counts.
_SESSION: Final = Path("/proc/self/autogroup")


def give_way() -> None:
    """Leaves this process a third of the processor time that others get beside it, when there is too little for all.

    Without effect on others in its session, and where the system does not allow it.
    """
    with suppress(OSError):
        os.nice(_NICENESS)
        # The system takes few such changes a second of all processes together that are not root's.
        for _ in range(_TRIES):
            try:
                _SESSION.write_text(str(_NICENESS))
            except BlockingIOError:
                time.sleep(0.1)
            else:
                return
