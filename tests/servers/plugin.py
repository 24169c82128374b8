"""Plugin of pytest for servers that Go builds: builds them before a run of the slow tests, and names missing ones."""

from collections.abc import Iterator

import pytest

from tests.servers.go import BUILD_COMMAND, KUSTOMIZE, PROGRAMS, build_missing, reason_to_skip
from tests.support import containers


def pytest_sessionstart(session: pytest.Session) -> None:
    """Builds in the controlling process, before any test is collected and any worker is started."""
    option = session.config.option
    wanted = option.all_tests or option.slow_only
    if not wanted or option.collectonly or hasattr(session.config, "workerinput"):
        return
    writer = session.config.get_terminal_writer()
    # Containers bring their servers along.
    programs = (KUSTOMIZE,) if containers.wanted() else PROGRAMS
    build_missing(programs, lambda text: writer.write(f"{text}\n", flush=True))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Names programs that tests missed, below the list of all skipped tests."""
    yield
    skipped = [str(report.longrepr) for report in terminalreporter.getreports("skipped")]
    counts = {program: sum(reason_to_skip(program) in each for each in skipped) for program in PROGRAMS}
    missing = [f"{program} ({count} tests)" for program, count in counts.items() if count]
    if missing:
        terminalreporter.write_line(f"Tests were skipped that need {', '.join(missing)}. To build: {BUILD_COMMAND}")
