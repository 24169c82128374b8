"""Permits for work, shared among companies in turns."""

from libs.fairness._semaphore import FairSemaphore, QueueFull

__all__ = ["FairSemaphore", "QueueFull"]
