"""Permits and queues, shared among companies in turns."""

from libs.fairness._capacity import Capacity
from libs.fairness._queue import FairQueue
from libs.fairness._semaphore import FairSemaphore, QueueFull

__all__ = ["Capacity", "FairQueue", "FairSemaphore", "QueueFull"]
