"""Structured logs on standard error. They contain IDs and names, never bodies or secrets."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

import structlog

from libs.tracing import span_id, trace_id_of

_THROTTLE_SECONDS: Final = 10.0
_MOST_MESSAGES: Final = 1000


def configure_logging(*, service: str, level: str, form: str) -> None:
    """Configures the logs of this process and its libraries. ``form`` is ``json`` or ``console``."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _with_trace,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%S.%fZ", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    # The filter is set on the handler, since a logger's filter doesn't see the records of its child loggers.
    throttle = LogThrottle()
    handler.addFilter(lambda record: not record.name.startswith("aiokafka") or throttle.filter(record))
    handler.addFilter(_keep_first_line_of_psycopg)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                lambda _logger, _name, event: {**event, "service": service},
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("aiokafka", "alembic", "httpx", "uvicorn.access", "psycopg.pool"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _with_trace(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    correlation_id = event.get("correlation_id")
    if isinstance(correlation_id, str):
        event["trace_id"] = trace_id_of(correlation_id)
        if (current := span_id()) is not None:
            event["span_id"] = current
    return event


def _keep_first_line_of_psycopg(record: logging.LogRecord) -> bool:
    # The later lines of a message may quote a whole row.
    if record.name.split(".", 1)[0] == "psycopg":
        record.msg, record.args = record.getMessage().split("\n", 1)[0], ()
    return True


class LogThrottle(logging.Filter):
    """A filter that passes identical messages once per ``seconds``. The next message reports how many were dropped.

    While the broker is down, aiokafka logs more than a hundred lines a second in each process.
    """

    def __init__(self, seconds: float = _THROTTLE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._last: dict[tuple[str, str], float] = {}
        self._dropped: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = (record.name, str(record.msg)), self._clock()
        last = self._last.get(key)
        if last is not None and now - last < self._seconds:
            self._dropped[key] = self._dropped.get(key, 0) + 1
            return False
        if len(self._last) >= _MOST_MESSAGES:
            self._last.clear()
            self._dropped.clear()
        self._last[key] = now
        if dropped := self._dropped.pop(key, 0):
            record.msg = f"{record.msg} (repeats dropped: {dropped})"
        return True
