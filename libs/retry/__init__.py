"""Retries calls that fail temporarily."""

from libs.retry._policy import CircuitBreaker, RetryPolicy, Sleep, Transient

__all__ = ["CircuitBreaker", "RetryPolicy", "Sleep", "Transient"]
