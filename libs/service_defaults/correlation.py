"""The correlation id of the current request or message."""

import structlog

HEADER = "X-Correlation-ID"


def current_correlation_id() -> str | None:
    """The correlation id bound to the current request or message."""
    value = structlog.contextvars.get_contextvars().get("correlation_id")
    return value if isinstance(value, str) else None


def bind_correlation_id(correlation_id: str) -> None:
    """Binds another correlation id from here on, for example one in the body."""
    structlog.contextvars.bind_contextvars(correlation_id=correlation_id)
