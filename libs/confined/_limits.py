"""Resource limits of confined processes, and the errors raised when they're exceeded."""

from collections.abc import Callable
from dataclasses import dataclass

PartDone = Callable[[], None]
"""Reports that a part of the job is done. The next part gets the full time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a process: ``seconds`` of wall time for each part of a job, and ``job_seconds`` for the whole job.

    The process can use ``memory_bytes`` of resident memory. It can map ``slack_bytes`` more, which some libraries need.
    """

    seconds: float
    job_seconds: float
    memory_bytes: int
    slack_bytes: int = 0


class JobRefused(Exception):
    """The process rejected the job's input. The message can be shown to the user who supplied it."""


class OutOfMemory(Exception):
    """The process reached its memory limit and must be killed. The input isn't necessarily invalid."""

    def __init__(self) -> None:
        super().__init__("Reading the file took too much memory. Split it into smaller files.")


class OutOfTime(TimeoutError):
    """A time limit was exceeded: the job's if ``whole`` is true, otherwise the current part's."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__("the job took too long")
        self.whole = whole


class ProcessKilled(Exception):
    """The process exceeded a limit, crashed, or raised an unexpected error. ``errors`` is the end of its stderr."""

    def __init__(self, status: int, errors: str) -> None:
        super().__init__(f"status {status}: {errors}")
        self.status = status
        self.errors = errors


class ProcessNotStarted(ProcessKilled):
    """The process exited before it was ready for a job."""


def no_parts() -> None:
    """Ignores progress, for jobs with a single part."""
