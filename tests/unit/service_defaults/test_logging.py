"""The content of the logs."""

import io
import logging
from collections.abc import Iterator

import pytest

from libs.service_defaults._logging import LogThrottle, configure_logging
from tests.support.plain_logs import write_plainly

AWAY = "Unable connect to node with id %s: %s"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Collects a service's log lines."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging(service="test", level="info", form="json")
    stream = io.StringIO()
    for handler in root.handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    write_plainly()


def test_a_broker_that_is_away_does_not_fill_the_logs(written: io.StringIO) -> None:
    for number in range(50):
        logging.getLogger("aiokafka").error(AWAY, 1, "refused")
        logging.getLogger("aiokafka.consumer.fetcher").error("Failed fetch")
        logging.getLogger("runtime").warning("turn %s", number)
    lines = written.getvalue().splitlines()
    assert [sum(text in line for line in lines) for text in ("Unable connect", "Failed fetch", "turn ")] == [1, 1, 50]


def test_the_database_driver_quotes_no_rows(written: io.StringIO) -> None:
    problem = 'duplicate key value violates unique constraint "uq"\nDETAIL:  Key (text)=(secret) already exists.'
    logging.getLogger("psycopg").warning("error ignored terminating %r: %s", "pipeline", problem)
    assert "violates unique" in written.getvalue()
    assert "secret" not in written.getvalue()


def test_dropped_messages_are_counted() -> None:
    times = iter((0.0, 1.0, 9.0, 10.5, 11.0, 30.0, 60.0))
    throttle = LogThrottle(10.0, lambda: next(times))

    def passes() -> str | None:
        record = logging.LogRecord("aiokafka", logging.ERROR, "", 0, AWAY, (1, "refused"), None)
        return record.getMessage() if throttle.filter(record) else None

    seen = [passes() for _ in range(7)]
    first = "Unable connect to node with id 1: refused"
    assert seen == [
        first,
        None,
        None,
        f"{first} (2 repeats dropped)",
        None,
        f"{first} (1 repeats dropped)",
        first,
    ]
