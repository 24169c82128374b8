"""Retries calls that fail temporarily."""

from libs.retry._circuit_breaker import CircuitBreaker
from libs.retry._policy import RetryPolicy, Sleep, Transient

__all__ = ["CircuitBreaker", "RetryPolicy", "Sleep", "Transient"]
