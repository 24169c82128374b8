"""Limits of confined processes, and the errors for exceeding them."""

from collections.abc import Callable
from dataclasses import dataclass

PartDone = Callable[[], None]
"""Called when a part of the job is done; the next part then gets a full time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a process: ``seconds`` of wall time for a part of a job, ``job_seconds`` for all of it.

    The process may use ``memory_bytes`` of resident memory. It may map ``slack_bytes`` more, for libraries that map a
    lot.
    """

    seconds: float
    job_seconds: float
    memory_bytes: int
    slack_bytes: int = 0


class JobRefused(Exception):
    """The job can't be done; the message is for the input's owner."""


class OutOfMemory(Exception):
    """The process hit its memory limit and must be killed. The input itself wasn't rejected."""

    def __init__(self) -> None:
        super().__init__("Reading it takes too much memory.")


class OutOfTime(TimeoutError):
    """A time limit ran out: the job's if ``whole``, otherwise the part's."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__("the job takes too long")
        self.whole = whole


class ProcessKilled(Exception):
    """The process ended by a limit, a crash or an unexpected error. ``errors``: the end of its error output."""

    def __init__(self, status: int, errors: str) -> None:
        super().__init__(f"status {status}: {errors}")
        self.status = status
        self.errors = errors


class ProcessNotStarted(ProcessKilled):
    """The process ended before it accepted a job."""


def no_parts() -> None:
    """For a job that is done in one part."""
