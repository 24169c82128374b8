"""Processes of their own for work on what strangers send: limits, no secrets, nothing to lose, and a low priority."""

from libs.confined._priority import give_way
from libs.confined._process import JobRefused, ProcessKilled, answer_job, run_confined

__all__ = ["JobRefused", "ProcessKilled", "answer_job", "give_way", "run_confined"]
