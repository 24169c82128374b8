"""Processes of their own for work on what strangers send: limits, no secrets and nothing to lose."""

from libs.confined._process import JobRefused, ProcessKilled, answer_job, run_confined

__all__ = ["JobRefused", "ProcessKilled", "answer_job", "run_confined"]
