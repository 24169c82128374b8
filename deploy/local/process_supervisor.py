"""Keeps a process running: starts it, watches it, and restarts it when it exits."""

import asyncio
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from deploy.local.errors import PortTaken, ProcessFailed, StackError
from deploy.local.files import tail
from deploy.local.managed_process import ManagedProcess
from deploy.local.ports import is_free
from deploy.local.processes import Identity, listens
from deploy.local.state import ProcessPhase, ProcessState
from libs.retry import RetryPolicy

_POLL_SECONDS = 0.1
_FIRST_DELAY, _LONGEST_DELAY = 0.2, 15.0
# A process that was ready for this long before it died restarts without a longer delay.
_STEADY_SECONDS = 30.0
_FIRST_START = RetryPolicy(first=0.4, attempts=4)
_FIRST_START_SECONDS = 180.0
_GRACE_SECONDS = 12.0


class ProcessSupervisor:
    """Supervises a process of the stack.

    The first start is retried only a few times, because a person is waiting and can fix the cause. Later starts are
    retried with backoff for as long as the stack runs.
    """

    def __init__(self, part: ManagedProcess, state: ProcessState, changed: Callable[[], None]) -> None:
        self.managed = part
        self._state = state
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._log_begins = 0
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the process and waits until it's ready. Raises StackError if it can't be started."""
        attempt = partial(self._bring_up, within=_FIRST_START_SECONDS)

        def report(_problem: Exception, attempt: int) -> None:
            self._report("restarting", f"attempt {attempt + 1} of {_FIRST_START.attempts}")

        try:
            # A taken port isn't retried. Other processes use the port, so only the whole stack can choose another one.
            await _FIRST_START.run(
                attempt, on=ProcessFailed, when=lambda problem: not isinstance(problem, PortTaken), before_sleep=report
            )
        except TimeoutError:
            # Later starts reuse what earlier ones prepared.
            raise self._failure(
                "wasn't ready after three minutes", "The machine may be too busy. Run ./aes up again.\n"
            ) from None
        self._watch = asyncio.create_task(self._keep_running())

    async def stop(self, grace: float) -> None:
        """Asks the process to stop, and kills it after `grace` seconds."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        self._report("stopping")
        await self._end_process(grace)
        self._state.pid = self._state.started = None
        self._report("stopped")

    async def _keep_running(self) -> None:
        delay = _FIRST_DELAY
        ready_since = time.monotonic()
        while True:
            assert self._process is not None
            code = await self._process.wait()
            # A process that was asked to stop, for example for a restart, exits with 0.
            if time.monotonic() - ready_since > _STEADY_SECONDS or code == 0:
                delay = _FIRST_DELAY
            problem = _ended_with(code)
            self._state.asked_restarts += code == 0
            while True:
                self._state.restarts += 1
                self._state.pid = self._state.started = None
                self._report("restarting" if delay < 2 else "failing", problem)
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LONGEST_DELAY)
                problem = await self._restart()
                if not problem:
                    break
            ready_since = time.monotonic()

    async def _restart(self) -> str:
        """Starts the process again. Returns the reason if that fails, or an empty string once the process is ready."""
        try:
            try:
                await self._bring_up()
            except Exception:
                await self._end_process(_GRACE_SECONDS)
                raise
        except StackError as error:
            return error.problem.splitlines()[0]
        except Exception as error:
            # Retries after any failure, since the process has to come back.
            log(traceback.format_exc())
            return f"couldn't be started: {error!r}"
        return ""

    async def _bring_up(self, within: float | None = None) -> None:
        """Prepares and starts the process. Raises TimeoutError if it isn't ready ``within`` seconds after the start.

        The preparation has no time limit, because the first one downloads Kafka.
        """
        began = time.monotonic()
        self._report("preparing")
        await self.managed.prepare(lambda detail: self._report("preparing", detail))
        async with asyncio.timeout(within):
            await self._launch()
        self._state.seconds = round(time.monotonic() - began, 2)
        self._report("ready")

    async def _launch(self) -> None:
        command = self.managed.command()
        with command.log.open("ab") as log:
            self._log_begins = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *command.arguments, stdout=log, stderr=log, **command.options()
            )
        identity = Identity.of(self._process.pid)
        self._state.pid = self._process.pid
        self._state.started = identity.started if identity else None
        self._report("starting")
        exited = asyncio.create_task(self._process.wait())
        try:
            while not await self._is_ready(self._process.pid):
                if exited.done():
                    raise self._start_failure(exited.result())
                await asyncio.wait([exited], timeout=_POLL_SECONDS)
            if exited.done():
                raise self._start_failure(exited.result())
        finally:
            exited.cancel()
        await self.managed.complete(lambda detail: self._report("starting", detail))

    async def _is_ready(self, pid: int) -> bool:
        """Returns whether this process is ready, and not another stack's process on the same port."""
        port = self.managed.port
        if not await self.managed.is_ready():
            return False
        # In a thread, since this loop supervises all other processes.
        return port is None or await asyncio.to_thread(listens, pid, port)

    async def _end_process(self, grace: float) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(self.managed.command().stop_signal)
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _start_failure(self, code: int) -> ProcessFailed:
        failure = self._failure(_ended_with(code) + " while starting")
        if (port := self.managed.port) is None or is_free(port):
            return failure
        return PortTaken(
            f"Port {port}, which {self.managed.name} needs, is in use by another program.\n{failure.problem}",
            failure.remedy,
        )

    def _failure(self, what: str, remedy: str = "") -> ProcessFailed:
        log = self.managed.command().log
        last_words = "".join(f"\n  {line}" for line in tail(log, 15, since=self._log_begins))
        quoted = f" The end of its log:{last_words}" if last_words else ""
        return ProcessFailed(f"{self.managed.name} {what}.{quoted}", f"{remedy}The whole log: {log}")

    def _report(self, state: ProcessPhase, detail: str = "") -> None:
        self._state.state, self._state.detail = state, detail
        self._changed()


def _ended_with(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def log(text: str) -> None:
    """Writes a line to the supervisor's log. Never raises an exception, even if the disk is full."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
