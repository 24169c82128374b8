"""Semaphores and queues that are shared fairly among companies."""

from libs.fairness._turns import Capacity, FairQueue, FairSemaphore, QueueFull

__all__ = ["Capacity", "FairQueue", "FairSemaphore", "QueueFull"]
