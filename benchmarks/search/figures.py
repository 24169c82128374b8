"""Figures of one run of the search benchmark."""

from dataclasses import dataclass

from benchmarks.search.measures import Quality
from services.ingestion.domain.engines import Mode

MODES: tuple[Mode, ...] = ("semantic", "keyword", "hybrid")


@dataclass(frozen=True)
class Ranked:
    engine: str
    collection: str
    mode: Mode
    quality: Quality


@dataclass(frozen=True)
class Timed:
    """Times of one search in milliseconds, one after the other."""

    engine: str
    chunks: int
    search: str
    p50: float
    p95: float


@dataclass(frozen=True)
class Filled:
    """Seconds that an index took to grow to its size, for writing alone and for finishing it."""

    engine: str
    chunks: int
    written: int
    writing: float
    finishing: float


@dataclass(frozen=True)
class Findings:
    quality: list[Ranked]
    filling: list[Filled]
    latency: list[Timed]
