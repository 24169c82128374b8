"""No test, and no end of a test run, waits for ever: a plugin of pytest, for every test.

pytest-timeout's own timer rings once and is taken away by the first failure. What hangs then, as the teardown of the
fixtures of a test that failed, would hang for good; and a ring is lost when it comes while a task in the background
runs, which keeps the exception to itself. Here the timer of a test rings again and again until the last of its
fixtures is gone, and says what the tasks of the event loop wait for. A test that does not even hear it is shown by its
stacks: pytest's own `faulthandler_timeout` would show each test that is slow and has a longer limit for that.
"""

import asyncio
import faulthandler
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from pytest_timeout import Settings, timeout_sigalrm

# Seconds. An orderly end of all that a test has started takes less.
NEXT_RING = 120.0
END_OF_THE_PROCESS = 60.0


class HangLimits:
    def __init__(self) -> None:
        self._testing = False
        """Whether what runs now is a test or its fixtures, and not pytest itself, which must not be interrupted."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        return (yield from self._interruptible())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        return (yield from self._interruptible())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        return (yield from self._interruptible())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """A task that is collected now would show its traceback within another, which Python 3.11 cannot do."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Settings) -> bool:
        def ring(_number: int, _frame: FrameType | None) -> None:
            if self._testing:
                _show_tasks(item)
                timeout_sigalrm(item, settings)

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, min(settings.timeout, NEXT_RING))
        # Where pytest writes what its captures of output must not take.
        shown = item.config.stash.get(fault_handler_stderr_fd_key, sys.stderr)
        faulthandler.dump_traceback_later(2 * settings.timeout, file=shown)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> bool:
        """Not at a failure: the timer ends with the test, above."""
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A thread that is never done would keep the process from ending after its report."""
        if hasattr(session.config, "workerinput"):
            # A worker of xdist waits here for the others; it ends with the controller, which has this timer.
            return
        end = threading.Timer(END_OF_THE_PROCESS, _end_anyway, (int(exitstatus),))
        end.daemon = True
        session.config.add_cleanup(end.start)

    def _interruptible(self) -> Iterator[None]:
        self._testing = True
        try:
            return (yield)
        finally:
            self._testing = False


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(HangLimits())
    # An orderly end: the servers that the tests have started end, too.
    signal.signal(signal.SIGTERM, _asked_to_end)


def _show_tasks(item: pytest.Item) -> None:
    loop = asyncio._get_running_loop()
    terminal = item.config.get_terminal_writer()
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        terminal.sep("~", title=f"Task {task.get_name()}")
        task.print_stack(file=terminal)


def _asked_to_end(_number: int, _frame: FrameType | None) -> None:
    # Without an exit status of its own: pytest shows what has failed only at the end of runs with one that it knows.
    pytest.exit("asked to end by SIGTERM")


def _end_anyway(exit_status: int) -> None:
    print("The tests are over, but the process does not end:", file=sys.stderr, flush=True)
    faulthandler.dump_traceback(all_threads=True)
    sys.stdout.flush()
    os._exit(exit_status)
