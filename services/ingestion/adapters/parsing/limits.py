"""Limits of one file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`timeout_seconds` is wall time for one file; `memory_bytes` what the process reading it may occupy."""

    timeout_seconds: float = 60.0
    memory_bytes: int = 1024**3
    text_characters: int = 20_000_000
    rows: int = 250_000
    unpacked_bytes: int = 512 * 1024**2
