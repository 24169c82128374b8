"""Limits of one file."""

from collections.abc import Callable
from dataclasses import dataclass

PartDone = Callable[[], None]
"""Is called when a part of the file is done; the next one has the time of a part."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`timeout_seconds` is wall time for a part of a file, such as a few pages or rows, `file_seconds` for all of it;
    `memory_bytes` is what the process reading it may occupy."""

    timeout_seconds: float = 60.0
    file_seconds: float = 3600.0
    memory_bytes: int = 1024**3
    text_characters: int = 20_000_000
    rows: int = 250_000
    unpacked_bytes: int = 512 * 1024**2


def no_parts() -> None:
    """The file is read in one part."""
