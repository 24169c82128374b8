"""Structured logs on standard error: ids and names, never bodies or secrets."""

import logging
import sys

import structlog

from libs.service_defaults._quiet import OncePerPause
from libs.tracing import span_id, trace_id_of


def configure_logging(*, service: str, level: str, form: str) -> None:
    """Send this process's logs, also those of libraries, through one renderer (``json`` or ``console``)."""
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
    # On the handler: a logger's filter does not see what the loggers below it write.
    quiet = OncePerPause()
    handler.addFilter(lambda record: not record.name.startswith("aiokafka") or quiet.filter(record))
    handler.addFilter(_first_line_of_the_driver)
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
        if (at_hand := span_id()) is not None:
            event["span_id"] = at_hand
    return event


def _first_line_of_the_driver(record: logging.LogRecord) -> bool:
    # What follows in a message of the database may quote a whole row.
    if record.name.split(".", 1)[0] == "psycopg":
        record.msg, record.args = record.getMessage().split("\n", 1)[0], ()
    return True
