"""Disposable processes for parsing untrusted input, with resource limits and without secrets."""

from libs.confined._limits import (
    JobRefused,
    Limits,
    OutOfMemory,
    OutOfTime,
    PartDone,
    ProcessKilled,
    ProcessNotStarted,
    no_parts,
)
from libs.confined._pool import ConfinedPool, PoolClosed
from libs.confined._priority import lower_priority
from libs.confined._process import run_confined
from libs.confined._worker import answer_job, answer_jobs

__all__ = [
    "ConfinedPool",
    "JobRefused",
    "Limits",
    "OutOfMemory",
    "OutOfTime",
    "PartDone",
    "PoolClosed",
    "ProcessKilled",
    "ProcessNotStarted",
    "answer_job",
    "answer_jobs",
    "lower_priority",
    "no_parts",
    "run_confined",
]
