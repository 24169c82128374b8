"""Permits and queues, shared among companies in turns."""

from libs.fairness._turns import Capacity, FairQueue, FairSemaphore, QueueFull

__all__ = ["Capacity", "FairQueue", "FairSemaphore", "QueueFull"]
