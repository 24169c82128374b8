"""Progress of a backup or restore on the terminal."""

import sys
import time

from cli.terminal import note

# A log gets a line now and then instead of one per object.
_LOG_SECONDS = 5.0
_TERMINAL_SECONDS = 0.1


class Steps:
    """Counts on one line of a terminal; elsewhere prints a line now and then, and one at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._total = self._count = 0
        self._printed_at = time.monotonic()
        self._on_terminal = sys.stderr.isatty()

    def begin(self, total: int) -> None:
        self._total = total
        if not total:
            self._print()

    def done(self) -> None:
        """Counts one more; may be called from any thread."""
        self._count += 1
        pause = _TERMINAL_SECONDS if self._on_terminal else _LOG_SECONDS
        if self._count >= self._total or time.monotonic() - self._printed_at >= pause:
            self._printed_at = time.monotonic()
            self._print()

    def _print(self) -> None:
        text = f"{self._what}: {self._count} of {self._total}"
        if self._on_terminal:
            end = "\n" if self._count >= self._total else ""
            print(f"\r{text}", end=end, file=sys.stderr, flush=True)
        else:
            note(text)
