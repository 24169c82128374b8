"""The supervisor's own log. It may be on the very disk that is full, so a line that can't be written is dropped."""

import sys
from contextlib import suppress


def log(text: str) -> None:
    """Writes to standard error. Never raises: what watches the stack must outlive its log."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
