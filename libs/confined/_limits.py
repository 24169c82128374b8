"""Limits of confined processes, and what is raised when one is reached."""

from collections.abc import Callable
from dataclasses import dataclass

PartDone = Callable[[], None]
"""Is called when a part of the job is done; the next one has the time of a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``seconds`` of wall time for a part of a job, ``job_seconds`` for all of it.

    The process may occupy ``memory_bytes``, and map ``slack_bytes`` beyond that, for libraries that map much.
    """

    seconds: float
    job_seconds: float
    memory_bytes: int
    slack_bytes: int = 0


class JobRefused(Exception):
    """The job cannot be done; the message is for the owner of what was given."""


class OutOfMemory(Exception):
    """The memory limit was hit. The job didn't refuse its input: its process must be killed."""

    def __init__(self) -> None:
        super().__init__("Reading it takes too much memory.")


class OutOfTime(TimeoutError):
    """``whole``: the time of the job, not that of a part, is over."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__("the job takes too long")
        self.whole = whole


class ProcessKilled(Exception):
    """A limit, a crash or an error that nobody expected ended the process. ``errors``: the end of what it wrote."""

    def __init__(self, status: int, errors: str) -> None:
        super().__init__(f"status {status}: {errors}")
        self.status = status
        self.errors = errors


class ProcessNotStarted(ProcessKilled):
    """It ended, or was ended, before it took a job."""


def no_parts() -> None:
    """The job is done in one part."""
