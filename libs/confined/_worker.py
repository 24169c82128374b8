"""The child's side of a confined process: sets its limits and runs jobs from standard input until the parent exits."""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import BinaryIO, Final

from libs.confined import _frames
from libs.confined._frames import Job
from libs.confined._limits import JobRefused, PartDone
from libs.confined._priority import lower_priority

Work = Callable[[Job, bytes, PartDone], tuple[Job, bytes]]
_OPEN_FILES: Final = 64
_GRACE_SECONDS: Final = 5
_REPORT_SECONDS: Final = 0.5


def answer_jobs(work: Work) -> None:
    """Runs jobs from standard input. Any error other than JobRefused and MemoryError ends the process."""
    jobs, answers = sys.stdin.buffer, _own_output()
    if (first := _frames.read(jobs)) is None:
        return
    limits, _ = first
    lower_priority()
    _confine(limits)
    _frames.write(answers, {"ready": True})
    while (frame := _frames.read(jobs)) is not None:
        _frames.write(answers, *_answer(work, *frame, _Parts(answers, limits["seconds"])))
        signal.alarm(0)


def answer_job(work: Callable[[Job], Job]) -> None:
    """Runs jobs that have a single part and return only JSON."""
    answer_jobs(lambda job, _, __: (work(job), b""))


class _Parts:
    """Reports finished parts of the job to the parent, at a limited rate."""

    def __init__(self, answers: BinaryIO, seconds: float) -> None:
        self._answers = answers
        # The alarm ends a process that's stuck in a part, even if its parent is gone.
        self._alarm = int(seconds) + _GRACE_SECONDS
        self._reported = time.monotonic()
        signal.alarm(self._alarm)

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            signal.alarm(self._alarm)
            _frames.write(self._answers, {"part_done": True})


def _answer(work: Work, job: Job, body: bytes, part_done: PartDone) -> tuple[Job, bytes]:
    try:
        return work(job, body, part_done)
    except JobRefused as problem:
        return {"refused": str(problem)}, b""
    except MemoryError:
        return {"out_of_memory": True}, b""


def _own_output() -> BinaryIO:
    """Redirects the output of libraries to standard error, so that it doesn't mix with the results."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _confine(limits: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if sys.platform == "linux":
        # macOS doesn't support this limit, so only the time limit applies there.
        _limit(resource.RLIMIT_AS, limits["memory_bytes"] + limits["slack_bytes"])
    _limit(resource.RLIMIT_CPU, limits["cpu_seconds"])
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)


def _limit(kind: int, most: int) -> None:
    resource.setrlimit(kind, (most, most))
