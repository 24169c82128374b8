"""The limits for reading a single file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    text_characters: int = 20_000_000
    rows: int = 250_000
    unpacked_bytes: int = 512 * 1024**2
