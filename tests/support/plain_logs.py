"""Plugin of pytest for the logs that services write inside of a test's process.

By itself structlog shows every exception with the source and the local variables of each frame, which takes up to
fifteen seconds of CPU for one that went through a whole application.
"""

import pytest
import structlog


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    write_plainly()


def write_plainly() -> None:
    """As structlog does by itself, but with Python's own tracebacks."""
    structlog.reset_defaults()
    *processors, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, plain])
