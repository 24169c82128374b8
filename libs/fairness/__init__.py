"""Permits and queues, shared among companies in turns."""

from libs.fairness._queue import FairQueue
from libs.fairness._semaphore import FairSemaphore, QueueFull

__all__ = ["FairQueue", "FairSemaphore", "QueueFull"]
